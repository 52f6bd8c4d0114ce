//! Trains normalized autoencoders (Yoon, Noh and Park, "Autoencoding Under Normalization Constraints", ICML 2021).
//!
//! An autoencoder's reconstruction error is the energy of a probability model, p(x) ∝ exp(−E(x)/T). Training lowers
//! the energy of data and raises that of negative samples, which Langevin chains find where the model reconstructs
//! too well. At run time nothing changes: one forward pass, one number, one threshold.
//!
//! One run, in the order of its modules: [`config`] reads a preset, `nae-data` loads and divides images, [`arch`] makes
//! the network and [`energy`] its energy, [`sample`] draws negative samples, [`methods`] has the losses, [`train`] the
//! loop, [`eval`] the figures, [`export`] the model file, [`deploy`] its 8-bit form, [`report`] the run folder. [`run`]
//! puts them together; the binary `nae-train` is a thin shell around it. [`plan`] chooses settings for data of one's
//! own, [`device`] says where all of it is computed. `density` and `experiments` are for the paper's experiments;
//! `paper` says where each of its equations is, and which test proves it. `density` is for two dimensions, where Ω
//! can be integrated.

pub mod arch;
pub mod config;
pub mod deploy;
pub mod device;
pub mod energy;
pub mod engine;
pub mod eval;
pub mod export;
pub mod methods;
pub mod plan;
pub mod report;
pub mod run;
pub mod sample;
pub mod seed;
pub mod shard;
pub mod tensors;
pub mod train;
