//! The device of a run: the CPU, or a graphics card with burn. The computation is the same on all; the features of a
//! build (`wgpu`, `vulkan`, `cuda`) determine which cards it supports.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// The requested device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The CPU.
    #[default]
    Cpu,
    /// A graphics card through wgpu, with shaders in WGSL.
    Wgpu(Adapter),
    /// A graphics card through Vulkan, with shaders in SPIR-V.
    Vulkan(Adapter),
    /// An NVIDIA card through CUDA, with its number.
    Cuda(usize),
}

/// The selection of a graphics card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adapter {
    /// The best card; never software.
    #[default]
    Best,
    /// A card with its own memory, by its number among these.
    Discrete(usize),
    /// A card integrated in the processor, by its number among these.
    Integrated(usize),
    /// A card provided by a virtual machine, by its number among these.
    Virtual(usize),
    /// A driver that computes on the CPU: slow, for tests.
    Software,
}

/// A device that is ready for computation.
#[derive(Debug)]
pub struct Opened {
    /// The device.
    pub device: Device,
    /// The names of adapter and driver.
    pub name: String,
}

/// A device that is available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The value of `--device` that selects it.
    pub choice: DeviceChoice,
    /// The name of the adapter.
    pub adapter: String,
    /// The kind of the device: `processor`, `discrete`, `integrated`, `virtual`, `software`, or `other`.
    pub kind: &'static str,
    /// The driver.
    pub driver: String,
    /// The graphics interface, such as `Vulkan`.
    pub interface: String,
}

/// An error that prevents the use of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The name is not that of a device.
    #[error(
        "no device is called `{0}`: expected cpu; wgpu or vulkan, or one of these with :discrete, :integrated, \
         :virtual or :software, and a number, as in wgpu:discrete:1; cuda, or cuda:1"
    )]
    Unknown(String),
    /// This build does not support the device.
    #[error("this build has no {feature}: build nae-train with `--features {feature}`")]
    NotBuiltIn {
        /// The missing feature.
        feature: &'static str,
    },
    /// There is no such device, or its driver fails.
    #[error("{choice}: {reason}; `nae-train devices` lists what is there")]
    Failed {
        /// The requested device.
        choice: DeviceChoice,
        /// The reason.
        reason: String,
    },
    /// The driver only found a software adapter.
    #[error("{choice}: the only adapter is software ({name}), slower than cpu; ask for {choice}:software to take it")]
    Software {
        /// The requested device.
        choice: DeviceChoice,
        /// The name of the adapter.
        name: String,
    },
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Wgpu(adapter) => write!(f, "wgpu{adapter}"),
            Self::Vulkan(adapter) => write!(f, "vulkan{adapter}"),
            Self::Cuda(0) => f.write_str("cuda"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, index) = match self {
            Self::Best => return Ok(()),
            Self::Software => return f.write_str(":software"),
            Self::Discrete(index) => ("discrete", index),
            Self::Integrated(index) => ("integrated", index),
            Self::Virtual(index) => ("virtual", index),
        };
        write!(f, ":{kind}")?;
        if *index == 0 { Ok(()) } else { write!(f, ":{index}") }
    }
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown(text.to_owned());
        let index = |text: Option<&str>| text.map_or(Ok(0), |text| text.parse().map_err(|_| unknown()));
        let mut parts = text.splitn(3, ':');
        let (kind, first, second) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let adapter = || match (first, second) {
            (None, _) => Ok(Adapter::Best),
            (Some("software"), None) => Ok(Adapter::Software),
            (Some("discrete"), number) => index(number).map(Adapter::Discrete),
            (Some("integrated"), number) => index(number).map(Adapter::Integrated),
            (Some("virtual"), number) => index(number).map(Adapter::Virtual),
            _ => Err(unknown()),
        };
        match kind {
            "cpu" if first.is_none() => Ok(Self::Cpu),
            "wgpu" => adapter().map(Self::Wgpu),
            "vulkan" => adapter().map(Self::Vulkan),
            "cuda" if second.is_none() => index(first).map(Self::Cuda),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = DeviceError;

    fn try_from(text: String) -> Result<Self, DeviceError> {
        text.parse()
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> Self {
        choice.to_string()
    }
}

impl DeviceChoice {
    /// Opens the device.
    ///
    /// # Errors
    /// [`DeviceError`] if this build does not support it, if it does not exist, or if only software is found and was
    /// not requested.
    pub fn open(self) -> Result<Opened, DeviceError> {
        match self {
            Self::Cpu => Ok(Opened { device: Device::flex(), name: "the processor".to_owned() }),
            #[cfg(feature = "wgpu")]
            Self::Wgpu(adapter) => graphics::open(self, adapter, burn::tensor::wgpu::WgpuBackend::Auto),
            #[cfg(feature = "vulkan")]
            Self::Vulkan(adapter) => graphics::open(self, adapter, burn::tensor::wgpu::WgpuBackend::Vulkan),
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => Ok(Opened { device: Device::cuda(index), name: format!("CUDA device {index}") }),
            #[cfg(not(feature = "wgpu"))]
            Self::Wgpu(_) => Err(DeviceError::NotBuiltIn { feature: "wgpu" }),
            #[cfg(not(feature = "vulkan"))]
            Self::Vulkan(_) => Err(DeviceError::NotBuiltIn { feature: "vulkan" }),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda(_) => Err(DeviceError::NotBuiltIn { feature: "cuda" }),
        }
    }

    /// Lists the devices that this build finds on this machine, starting with the CPU.
    pub fn list() -> Vec<Listed> {
        let processor = Listed {
            choice: Self::Cpu,
            adapter: "the processor".to_owned(),
            kind: "processor",
            driver: String::new(),
            interface: String::new(),
        };
        [vec![processor], graphics::list(), cuda::list()].concat()
    }
}

/// Whether tensors on `device` are in the CPU's memory.
pub fn on_processor(device: &Device) -> bool {
    device.clone().inner() == Device::flex()
}

/// Without wgpu there are no cards to list.
#[cfg(not(feature = "wgpu"))]
mod graphics {
    pub(super) fn list() -> Vec<super::Listed> {
        Vec::new()
    }
}

/// Without CUDA there are no cards to list.
#[cfg(not(feature = "cuda"))]
mod cuda {
    pub(super) fn list() -> Vec<super::Listed> {
        Vec::new()
    }
}

/// Cards through CUDA.
#[cfg(feature = "cuda")]
mod cuda {
    use burn::tensor::{Device, DeviceType};

    use super::{DeviceChoice, Listed};

    pub(super) fn list() -> Vec<Listed> {
        let named = |index| Listed {
            choice: DeviceChoice::Cuda(index),
            adapter: format!("CUDA device {index}"),
            kind: "discrete",
            driver: "CUDA".to_owned(),
            interface: "CUDA".to_owned(),
        };
        (0..Device::enumerate(DeviceType::Cuda).into_vec().len()).map(named).collect()
    }
}

/// Cards through wgpu.
#[cfg(feature = "wgpu")]
mod graphics {
    use burn::tensor::wgpu::WgpuBackend;
    use burn::tensor::wgpu::wgpu::{self, AdapterInfo, Backend, Backends, DeviceType};
    use burn::tensor::{Device, DeviceKind};

    use super::{Adapter, DeviceChoice, DeviceError, Listed, Opened};

    pub(super) fn open(choice: DeviceChoice, adapter: Adapter, api: WgpuBackend) -> Result<Opened, DeviceError> {
        let kind = match adapter {
            Adapter::Best => DeviceKind::DefaultDevice,
            Adapter::Discrete(index) => DeviceKind::DiscreteGpu(index),
            Adapter::Integrated(index) => DeviceKind::IntegratedGpu(index),
            Adapter::Virtual(index) => DeviceKind::VirtualGpu(index),
            Adapter::Software => DeviceKind::Cpu,
        };
        let options = Device::wgpu_options().device_kind(kind).graphics_api(api);
        let (device, setup) =
            options.init_with_setup().map_err(|error| DeviceError::Failed { choice, reason: error.to_string() })?;
        let info = setup.adapter.get_info();
        let name = format!("{} ({}, {})", info.name, driver(&info), info.backend);
        if info.device_type == DeviceType::Cpu && adapter != Adapter::Software {
            return Err(DeviceError::Software { choice, name });
        }
        Ok(Opened { device, name })
    }

    pub(super) fn list() -> Vec<Listed> {
        let adapters = pollster::block_on(wgpu::Instance::default().enumerate_adapters(Backends::all()));
        let infos: Vec<AdapterInfo> = adapters.iter().map(wgpu::Adapter::get_info).collect();
        // Cards with another interface are not listed again with OpenGL.
        let proper = infos.iter().any(|info| info.backend != Backend::Gl);
        let mut counts = [0; 3];
        let mut next = |which: usize| {
            counts[which] += 1;
            counts[which] - 1
        };
        infos
            .into_iter()
            .filter(|info| !proper || info.backend != Backend::Gl)
            .map(|info| {
                let (adapter, kind) = match info.device_type {
                    DeviceType::DiscreteGpu => (Adapter::Discrete(next(0)), "discrete"),
                    DeviceType::IntegratedGpu => (Adapter::Integrated(next(1)), "integrated"),
                    DeviceType::VirtualGpu => (Adapter::Virtual(next(2)), "virtual"),
                    DeviceType::Cpu => (Adapter::Software, "software"),
                    DeviceType::Other => (Adapter::Best, "other"),
                };
                Listed {
                    choice: DeviceChoice::Wgpu(adapter),
                    driver: driver(&info),
                    interface: info.backend.to_string(),
                    adapter: info.name,
                    kind,
                }
            })
            .collect()
    }

    fn driver(info: &AdapterInfo) -> String {
        format!("{} {}", info.driver, info.driver_info).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let all = [
            "cpu",
            "wgpu",
            "wgpu:discrete",
            "wgpu:discrete:1",
            "wgpu:integrated",
            "vulkan:virtual:2",
            "wgpu:software",
            "cuda",
            "cuda:3",
        ];
        for name in all {
            assert_eq!(name.parse::<DeviceChoice>().expect("a name").to_string(), name);
        }
        for name in ["", "gpu", "cpu:1", "wgpu:1", "wgpu:software:1", "cuda:x", "cuda:1:2", "wgpu:discrete:-1"] {
            let error = name.parse::<DeviceChoice>().expect_err("no name").to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
    }

    #[test]
    fn the_processor_is_always_there() {
        let opened = DeviceChoice::default().open().expect("no driver is needed");
        assert!(on_processor(&opened.device) && on_processor(&opened.device.autodiff()));
        assert_eq!(DeviceChoice::list()[0].choice, DeviceChoice::Cpu);
    }

    #[cfg(not(feature = "wgpu"))]
    #[test]
    fn a_device_that_is_not_built_in_names_the_feature() {
        let error = DeviceChoice::Wgpu(Adapter::Best).open().expect_err("not built in").to_string();
        assert!(error.contains("--features wgpu"), "{error}");
    }
}
