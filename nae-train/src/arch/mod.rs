//! Architectures, described once as lists of layers, from which the burn module and the exported graph are made.
//!
//! [`spec`] defines the layers, [`blocks`] the paper's blocks of layers, `autoencoder_spec` an encoder and a decoder
//! that fit together. Each family of autoencoders has its own file:
//!
//! | file | network | images |
//! |---|---|---|
//! | `fc_res` | FCRes2 | points in the plane |
//! | [`conv28`], [`conv32`], [`conv32_big`], [`conv64`] | the paper's networks | 1×28×28, 3×32×32, 3×64×64 |
//! | `igebm` | the network for CIFAR-10 in the authors' code | 3×32×32 |
//! | [`dense`] | dense layers | any |
//! | `linear` | a linear map each way, for the Mahalanobis distance | any |
//! | `memory` | a softmax over stored samples, for nearest neighbours | any |
//! | [`small_conv`] | for microcontrollers | squares of 12 to 82 pixels |
//!
//! `layer` has the modules, `spectral` and `upsample` those that burn lacks, `autoencoder` combines them. `init` draws
//! initial weights. A model specifies its energy; computing energies, sampling and training are in other modules.

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
