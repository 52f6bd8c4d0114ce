//! Which networks the CPU engine runs, and the choice between the engines.

use burn::tensor::Device;

use super::Engine;
use super::network::comparison;
use crate::arch::AutoencoderSpec;
use crate::device::on_processor;
use crate::sample::PrecisionUnavailable;

/// What the CPU engine, or the device, does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// An energy.
    #[error("the CPU engine does not have the energy {0}; the engine `burn` has, and `auto` chooses it")]
    Energy(&'static str),
    /// A device.
    #[error("the CPU engine computes on the processor alone; with --device, leave --engine out, or take `burn`")]
    Device,
    /// The chains' precision.
    #[error(transparent)]
    Precision(#[from] PrecisionUnavailable),
}

/// What is asked for; [`Engine`] is what is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The CPU engine where it has the network's energy, burn otherwise.
    #[default]
    Auto,
    /// The CPU engine or nothing.
    Cpu,
    /// burn.
    Burn,
}

impl EngineChoice {
    /// The choice that is left on `device`: burn alone has other devices than the processor.
    ///
    /// # Errors
    /// [`Unsupported::Device`] where the CPU engine is asked for on another.
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
    /// [`Unsupported`] where the CPU engine is asked for and does not have the energy.
    pub fn engine(self, spec: &AutoencoderSpec) -> Result<Engine, Unsupported> {
        match self {
            Self::Auto if supports(spec).is_ok() => Ok(Engine::Cpu),
            Self::Cpu => supports(spec).map(|()| Engine::Cpu),
            Self::Auto | Self::Burn => Ok(Engine::Burn),
        }
    }
}

/// Whether the CPU engine has a network's energy. It has all layers.
///
/// # Errors
/// [`Unsupported`] names the energy that it does not have.
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
