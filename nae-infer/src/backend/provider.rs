//! ONNX Runtime's execution providers. Its library has to be built with them.

/// An execution provider of ONNX Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecutionProvider {
    /// The processor, which also runs the layers that no other provider supports.
    Cpu,
    /// NVIDIA graphics cards, by CUDA.
    Cuda,
    /// NVIDIA graphics cards, by TensorRT.
    TensorRt,
    /// Intel's processors and accelerators, by OpenVINO.
    OpenVino,
    /// Qualcomm's accelerators, by QNN.
    Qnn,
    /// The processor, by XNNPACK.
    Xnnpack,
    /// Apple's accelerators, by Core ML.
    CoreMl,
    /// Graphics cards on Windows, by DirectML.
    DirectMl,
    /// AMD graphics cards, by MIGraphX.
    MiGraphX,
}

impl ExecutionProvider {
    /// All providers.
    pub const ALL: [Self; 9] = [
        Self::Cpu,
        Self::Cuda,
        Self::TensorRt,
        Self::OpenVino,
        Self::Qnn,
        Self::Xnnpack,
        Self::CoreMl,
        Self::DirectMl,
        Self::MiGraphX,
    ];

    /// Its name in lower case, such as `cuda`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::TensorRt => "tensorrt",
            Self::OpenVino => "openvino",
            Self::Qnn => "qnn",
            Self::Xnnpack => "xnnpack",
            Self::CoreMl => "coreml",
            Self::DirectMl => "directml",
            Self::MiGraphX => "migraphx",
        }
    }

    /// The provider with this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.name() == name)
    }
}
