//! Post-training quantisation: from the f32 layer list of a model and images it should work on to a
//! list of 8-bit layers. Reading ONNX is in [`nae_onnx::lower`], the arena and the file in
//! [`nae_core::model::writer`].
//!
//! Weights are symmetric with one scale an output channel, activations have one scale and zero point a
//! tensor (Jacob et al., "Quantization and Training of Neural Networks for Efficient
//! Integer-Arithmetic-Only Inference", CVPR 2018), and both are what TFLite's reference kernels
//! take. In order: [`activations`] splits fused activations off and looks at what every tensor holds,
//! [`equalize`] evens the channels out, [`range`] chooses each tensor's scale, [`build`] makes the
//! 8-bit layers, [`evaluate`] runs them; [`report`] says what it cost on [`data`]. A model that comes
//! with scales keeps them, and its channels as they are.

pub mod activations;
pub mod build;
pub mod data;
pub mod equalize;
pub mod evaluate;
pub mod range;
pub mod report;

use nae_core::engine::EngineError;
use nae_core::kernels::int8::Layout;
use nae_core::model::ModelError;
use nae_core::model::writer::{Network, WriteError};
use nae_onnx::lower::Scales;

use activations::Activations;
pub use build::{Built, FloatLayer};
pub use range::Ranges;

/// What can be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How the range of a tensor is chosen.
    pub ranges: Ranges,
    /// Whether channels are evened out; `None` to do what leaves the smaller error on the images.
    pub equalize: Option<bool>,
    /// How weights are laid out.
    pub layout: Layout,
    /// Scales that tensors and weights of the network have already, as [`lower_with_scales`] gives them: nothing is
    /// chosen there. Where there are any, channels are not evened out, for which scales would be wrong.
    ///
    /// [`lower_with_scales`]: nae_onnx::lower::lower_with_scales
    pub scales: Scales,
}

impl Default for Settings {
    fn default() -> Self {
        Self { ranges: Ranges::MeanSquaredError, equalize: None, layout: Layout::Paired, scales: Scales::default() }
    }
}

/// A model that cannot be quantised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// There is nothing to choose ranges by.
    #[error("no images to choose ranges by; --calibrate needs some")]
    NoImages,
    /// The writer refuses the network.
    #[error("the quantised model cannot be written: {0}")]
    Write(#[from] WriteError),
    /// The parser refuses it.
    #[error("the quantised model cannot be read: {0}")]
    Model(#[from] ModelError),
    /// The engine cannot run it on an image.
    #[error("the model cannot be run on the calibration data: {0}")]
    Engine(#[from] EngineError),
}

/// A model before and after.
#[derive(Clone, Debug)]
pub struct Quantized {
    /// The 8-bit layers, without calibration: its energies are not those of the f32 model.
    pub network: Network,
    /// Layers that stay f32, and why.
    pub float_layers: Vec<FloatLayer>,
    /// Whether channels were evened out.
    pub equalized: bool,
    /// The f32 model whose nodes [`Quantized::without`] counts.
    source: Network,
    activations: Activations,
    settings: Settings,
}

/// Quantises `network` with ranges chosen on `images`: HWC, in the range of its preprocessing.
///
/// # Errors
/// [`QuantizeError`].
pub fn quantize(network: &Network, images: &[Vec<f32>], settings: &Settings) -> Result<Quantized, QuantizeError> {
    if images.is_empty() {
        return Err(QuantizeError::NoImages);
    }
    let (plain, scales) = activations::split(network, &settings.scales);
    let equalize = if scales.is_empty() { settings.equalize } else { Some(false) };
    let settings = &Settings { scales, equalize, ..settings.clone() };
    let seen = Activations::observe(&plain, images)?;
    let candidate = |source: Network, activations: Activations, equalized| {
        let Built { network, float_layers } = build::build(&source, &activations, settings, &|_| false);
        Quantized { network, float_layers, equalized, source, activations, settings: settings.clone() }
    };
    let equal = |plain: &Network, seen: &Activations| -> Result<Option<Quantized>, QuantizeError> {
        let Some(equal) = equalize::equalize(plain, seen) else { return Ok(None) };
        let activations = Activations::observe(&equal, images)?;
        Ok(Some(candidate(equal, activations, true)))
    };
    match settings.equalize {
        Some(false) => Ok(candidate(plain, seen, false)),
        Some(true) => Ok(match equal(&plain, &seen)? {
            Some(equal) => equal,
            None => candidate(plain, seen, false),
        }),
        None => {
            let equal = equal(&plain, &seen)?;
            let plain = candidate(plain, seen, false);
            let Some(equal) = equal else { return Ok(plain) };
            let few = &images[..images.len().min(256)];
            let error = |q: &Quantized| evaluate::reconstruction_error(network, &q.network, few);
            Ok(if error(&equal)? < error(&plain)? { equal } else { plain })
        }
    }
}

impl Quantized {
    /// Nodes that were quantised, by number and kind: what [`Quantized::without`] takes.
    pub fn nodes(&self) -> Vec<(usize, &'static str)> {
        build::weighted(&self.source)
    }

    /// Tensors whose scales are those that the model came with.
    pub fn own_scales(&self) -> usize {
        self.settings.scales.tensors.len()
    }

    /// The model with node `kept` in f32 and all others quantised: what that one costs.
    pub fn without(&self, kept: usize) -> Network {
        build::build(&self.source, &self.activations, &self.settings, &|node| node == kept).network
    }
}
