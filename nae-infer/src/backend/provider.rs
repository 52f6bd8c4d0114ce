//! What ONNX Runtime computes on, where its library was built for it.

/// An execution provider of ONNX Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecutionProvider {
    /// The processor: what no other provider takes goes there anyhow.
    Cpu,
    /// CUDA.
    Cuda,
    /// TensorRT.
    TensorRt,
    /// OpenVINO.
    OpenVino,
    /// Qualcomm's accelerators.
    Qnn,
    /// XNNPACK.
    Xnnpack,
    /// Core ML.
    CoreMl,
    /// DirectML.
    DirectMl,
    /// MIGraphX.
    MiGraphX,
}

impl ExecutionProvider {
    /// Every provider that can be asked for.
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
