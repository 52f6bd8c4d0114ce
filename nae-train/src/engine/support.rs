//! Determines which networks the CPU engine supports, and chooses between the engines.

use burn::tensor::Device;

use super::Engine;
use super::network::comparison;
use crate::arch::AutoencoderSpec;
use crate::device::on_processor;
use crate::sample::PrecisionUnavailable;

/// An error for something that the CPU engine or the device does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The CPU engine does not support the energy.
    #[error("the CPU engine does not have the energy {0}; the engine `burn` has, and `auto` chooses it")]
    Energy(&'static str),
    /// The CPU engine does not support the device.
    #[error("the CPU engine computes on the processor alone; with --device, leave --engine out, or take `burn`")]
    Device,
    /// The device does not support the chains' precision.
    #[error(transparent)]
    Precision(#[from] PrecisionUnavailable),
}

/// The requested engine; [`Engine`] is the one that is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The CPU engine if it supports the network's energy, otherwise burn.
    #[default]
    Auto,
    /// The CPU engine; an error if it does not support the network.
    Cpu,
    /// The engine of burn.
    Burn,
}

impl EngineChoice {
    /// The choice that is possible on `device`: only burn supports devices other than the CPU.
    ///
    /// # Errors
    /// [`Unsupported::Device`] if the CPU engine is requested on another device.
    pub fn on(self, device: &Device) -> Result<Self, Unsupported> {
        match self {
            choice if on_processor(device) => Ok(choice),
            Self::Cpu => Err(Unsupported::Device),
            Self::Auto | Self::Burn => Ok(Self::Burn),
        }
    }

    /// The engine for a network.
    ///
    /// # Errors
    /// [`Unsupported`] if the CPU engine is requested and does not support the energy.
    pub fn engine(self, spec: &AutoencoderSpec) -> Result<Engine, Unsupported> {
        match self {
            Self::Auto if supports(spec).is_ok() => Ok(Engine::Cpu),
            Self::Cpu => supports(spec).map(|()| Engine::Cpu),
            Self::Auto | Self::Burn => Ok(Engine::Burn),
        }
    }
}

/// Checks that the CPU engine supports a network's energy. It supports all layers.
///
/// # Errors
/// [`Unsupported`] with the energy that it does not support.
pub fn supports(spec: &AutoencoderSpec) -> Result<(), Unsupported> {
    comparison(spec.energy()).map(drop).ok_or(Unsupported::Energy(spec.energy().name()))
}

#[cfg(test)]
mod tests {
    use nae_core::energy::Energy;

    use super::*;
    use crate::arch::LatentSpace::Sphere;
    use crate::arch::conv28::conv28;
    use crate::arch::conv32::conv32;
    use crate::arch::small_conv::small_conv16;

    #[test]
    fn the_engine_is_chosen_by_the_network() {
        for spec in [conv28(4, 8, Sphere), small_conv16(1, 8, 32, Sphere), conv32(4, 8, Sphere)] {
            let spec = spec.expect("a valid architecture");
            assert_eq!(EngineChoice::Auto.engine(&spec), Ok(Engine::Cpu));
            assert_eq!(EngineChoice::Cpu.engine(&spec), Ok(Engine::Cpu));
            assert_eq!(EngineChoice::Burn.engine(&spec), Ok(Engine::Burn));
        }
        let with = |energy| conv28(4, 8, Sphere).expect("a valid architecture").with_energy(energy);
        assert_eq!(EngineChoice::Auto.engine(&with(Energy::L1)), Ok(Engine::Cpu));
        assert_eq!(EngineChoice::Auto.engine(&with(Energy::Ssim)), Ok(Engine::Burn));
        let error = EngineChoice::Cpu.engine(&with(Energy::Ssim)).expect_err("another energy").to_string();
        assert!(error.contains("energy ssim"), "{error}");
    }
}
