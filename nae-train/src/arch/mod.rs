//! Architectures: layers in a small language, described once, from which come the burn module and the exported graph.
//!
//! [`spec`] is the language, [`blocks`] the paper's blocks said in it, [`autoencoder_spec`] an encoder and a decoder
//! that fit together. One file for each family makes such pairs:
//!
//! | file | network | images |
//! |---|---|---|
//! | [`fc_res`] | FCRes2 | points in the plane |
//! | [`conv28`], [`conv32`], [`conv32_big`], [`conv64`] | the paper's of these names | 1×28×28, 3×32×32, 3×64×64 |
//! | [`igebm`] | the authors' code's pair for CIFAR-10 | 3×32×32 |
//! | [`dense`] | dense layers | any |
//! | [`small_conv`] | for microcontrollers | squares of 12 to 40 pixels |
//!
//! [`layer`] has the modules, [`spectral`] and [`upsample`] those that burn lacks, [`autoencoder`] puts them together.
//! Weights are drawn in [`init`]. A model names its energy; nothing here computes one, samples or trains.

pub mod autoencoder;
pub mod autoencoder_spec;
pub mod blocks;
pub mod checkpoint;
pub mod conv28;
pub mod conv32;
pub mod conv32_big;
pub mod conv64;
pub mod dense;
pub mod fc_res;
pub mod graph;
pub mod igebm;
pub mod init;
pub mod latent;
pub mod layer;
pub mod small_conv;
pub mod spec;
pub mod spectral;
pub mod upsample;

pub use autoencoder::Autoencoder;
pub use autoencoder_spec::AutoencoderSpec;
pub use latent::LatentSpace;
pub use spec::LayerSpec;
