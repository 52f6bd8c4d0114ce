//! Architectures: layers in a small language, described once, from which come the burn module and the exported graph.
//!
//! [`spec`] is the language, [`blocks`] the paper's blocks said in it, `autoencoder_spec` an encoder and a decoder
//! that fit together. One file for each family makes such pairs:
//!
//! | file | network | images |
//! |---|---|---|
//! | `fc_res` | FCRes2 | points in the plane |
//! | [`conv28`], [`conv32`], [`conv32_big`], [`conv64`] | the paper's of these names | 1×28×28, 3×32×32, 3×64×64 |
//! | `igebm` | the authors' code's pair for CIFAR-10 | 3×32×32 |
//! | [`dense`] | dense layers | any |
//! | `linear` | a linear map each way, for the Mahalanobis distance | any |
//! | `memory` | a softmax over remembered samples, for nearest neighbours | any |
//! | [`small_conv`] | for microcontrollers | squares of 12 to 40 pixels |
//!
//! `layer` has the modules, `spectral` and `upsample` those that burn lacks, `autoencoder` puts them together.
//! Weights are drawn in `init`. A model names its energy; nothing here computes one, samples or trains.

pub(crate) mod autoencoder;
pub(crate) mod autoencoder_spec;
pub mod blocks;
pub mod checkpoint;
pub(crate) mod conv28;
pub(crate) mod conv32;
pub(crate) mod conv32_big;
pub(crate) mod conv64;
pub(crate) mod dense;
pub(crate) mod fc_res;
pub(crate) mod graph;
pub(crate) mod igebm;
pub(crate) mod init;
pub(crate) mod latent;
pub(crate) mod layer;
pub(crate) mod linear;
pub(crate) mod memory;
pub(crate) mod small_conv;
pub mod spec;
pub(crate) mod spectral;
pub(crate) mod upsample;

pub use autoencoder::Autoencoder;
pub use autoencoder_spec::AutoencoderSpec;
pub use conv28::conv28;
pub use conv32::conv32;
pub use conv32_big::conv32_big;
pub use conv64::{Conv64Widths, conv64};
pub use dense::{DenseOutput, dense};
pub use fc_res::fc_res2;
pub use igebm::igebm32;
pub use latent::LatentSpace;
pub use small_conv::{small_conv, small_conv16};
pub use spec::LayerSpec;
