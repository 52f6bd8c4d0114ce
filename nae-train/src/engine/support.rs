//! Which networks the CPU engine runs, and the choice between the engines.

use nae_core::energy::Energy;

use super::Engine;
use crate::arch::{AutoencoderSpec, LayerSpec};

/// What the CPU engine does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A layer.
    #[error(
        "the CPU engine does not have layer {index} of the {part} of {architecture}: {layer}; the engine `burn` has, and \
         `auto` chooses it"
    )]
    Layer {
        /// Name of the architecture.
        architecture: String,
        /// `encoder` or `decoder`.
        part: &'static str,
        /// Position in that part, from 0.
        index: usize,
        /// The layer.
        layer: String,
    },
    /// An energy.
    #[error("the CPU engine does not have the energy {0}; the engine `burn` has, and `auto` chooses it")]
    Energy(&'static str),
}

/// What is asked for; [`Engine`] is what is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The CPU engine where it has every layer, burn otherwise.
    #[default]
    Auto,
    /// The CPU engine or nothing.
    Cpu,
    /// burn.
    Burn,
}

impl EngineChoice {
    /// The engine for a network.
    ///
    /// # Errors
    /// [`Unsupported`] where the CPU engine is asked for and does not have a layer.
    pub fn engine(self, spec: &AutoencoderSpec) -> Result<Engine, Unsupported> {
        match self {
            Self::Auto if supports(spec).is_ok() => Ok(Engine::Cpu),
            Self::Cpu => supports(spec).map(|()| Engine::Cpu),
            Self::Auto | Self::Burn => Ok(Engine::Burn),
        }
    }
}

/// Whether the CPU engine has every layer of a network, and its energy.
///
/// # Errors
/// [`Unsupported`] names the energy, or the first layer, that it does not have.
pub fn supports(spec: &AutoencoderSpec) -> Result<(), Unsupported> {
    if !matches!(spec.energy(), Energy::SquaredL2) {
        return Err(Unsupported::Energy(spec.energy().name()));
    }
    for (part, layers) in [("encoder", spec.encoder()), ("decoder", spec.decoder())] {
        if let Some((index, layer)) = layers.iter().enumerate().find(|(_, layer)| !has(layer)) {
            let (architecture, layer) = (spec.name().to_owned(), layer.to_string());
            return Err(Unsupported::Layer { architecture, part, index, layer });
        }
    }
    Ok(())
}

fn has(layer: &LayerSpec) -> bool {
    match layer {
        LayerSpec::Conv { stride, padding, spectral_norm, .. } => *stride == 1 && *padding == 0 && !spectral_norm,
        LayerSpec::ConvTranspose { stride, padding, .. } => *stride == 1 && *padding == 0,
        LayerSpec::Relu | LayerSpec::Sigmoid | LayerSpec::MaxPool { .. } | LayerSpec::Upsample { .. } => true,
        LayerSpec::Dense { .. }
        | LayerSpec::Reshape { .. }
        | LayerSpec::LeakyRelu { .. }
        | LayerSpec::AvgPool { .. }
        | LayerSpec::Nearest { .. }
        | LayerSpec::GroupNorm { .. }
        | LayerSpec::Residual { .. }
        | LayerSpec::Gated { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::LatentSpace::Sphere;
    use crate::arch::conv28::conv28;
    use crate::arch::conv32::conv32;
    use crate::arch::small_conv::small_conv16;

    #[test]
    fn the_engine_is_chosen_by_the_network() {
        for spec in [conv28(4, 8, Sphere), small_conv16(1, 8, 32, Sphere)] {
            let spec = spec.expect("a valid architecture");
            assert_eq!(EngineChoice::Auto.engine(&spec), Ok(Engine::Cpu));
            assert_eq!(EngineChoice::Cpu.engine(&spec), Ok(Engine::Cpu));
            assert_eq!(EngineChoice::Burn.engine(&spec), Ok(Engine::Burn));
        }
        let l1 = conv28(4, 8, Sphere).expect("a valid architecture").with_energy(Energy::L1);
        assert_eq!(EngineChoice::Auto.engine(&l1), Ok(Engine::Burn));
        assert!(EngineChoice::Cpu.engine(&l1).is_err());
        let spec = conv32(4, 8, Sphere).expect("a valid architecture");
        assert_eq!(EngineChoice::Auto.engine(&spec), Ok(Engine::Burn));
        let error = EngineChoice::Cpu.engine(&spec).expect_err("strides").to_string();
        assert!(error.contains("layer 0 of the encoder") && error.contains("Conv2d(4, 4, 2, 0)"), "{error}");
    }
}
