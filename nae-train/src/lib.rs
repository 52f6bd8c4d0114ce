#![doc = include_str!("../README.md")]
//!
//! The modules of one run, in order of their use: [`config`] reads a preset, `nae-data` loads and divides images,
//! [`arch`] defines the network and [`energy`] its energy, [`sample`] draws negative samples, [`methods`] computes
//! losses and updates, [`train`] contains the training loop, [`eval`] evaluates, [`export`] writes the model file,
//! [`deploy`] measures the loss from 8-bit quantization, [`report`] writes the run folder. [`run`] combines them.
//! [`plan`] chooses settings for a user's own data, and [`own`] makes a run with them; [`form`] chooses whether images are
//! trained whole, in tiles or as [`features`], by a [`trial`]. [`interrupted`] continues a run from its folder, and
//! [`recorded`] prepares a finished one again. [`device`] selects the hardware, and [`engine`] computes on the CPU;
//! [`shard`] cuts batches for its threads, [`tensors`] makes burn's tensors of images, and [`seed`] has the streams of
//! random numbers. [`commit`] names the program in records.

pub mod arch;
pub mod commit;
pub mod config;
pub mod deploy;
pub mod device;
pub mod energy;
pub mod engine;
pub mod eval;
pub mod export;
pub mod features;
pub mod form;
pub mod interrupted;
pub mod methods;
pub mod own;
pub mod plan;
pub mod recorded;
pub mod report;
pub mod run;
pub mod sample;
pub mod seed;
pub mod shard;
pub mod tensors;
pub mod train;
pub mod trial;
