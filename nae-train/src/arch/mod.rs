//! Architectures: a list of layers, described once, from which come the burn module and the exported graph.
//!
//! [`spec`] is the description, [`layer`] the modules, [`upsample`] the one layer burn lacks a portable
//! backward pass for, [`small_conv`] the family for small images. Weights are drawn in [`init`].
//! A model names its energy; nothing here computes one, samples or trains.

pub mod autoencoder;
pub mod init;
pub mod latent;
pub mod layer;
pub mod small_conv;
pub mod spec;
pub mod upsample;

pub use autoencoder::Autoencoder;
pub use latent::LatentSpace;
pub use spec::{AutoencoderSpec, LayerSpec};
