#![doc = include_str!("../README.md")]
//!
//! One run, in the order of its modules: [`config`] reads a preset, `nae-data` loads and divides images, [`arch`] makes
//! the network and [`energy`] its energy, [`sample`] draws negative samples, [`methods`] has the losses, [`train`] the
//! loop, [`eval`] the figures, [`export`] the model file, [`deploy`] the cost of 8 bits, [`report`] the run folder.
//! [`run`] puts them together. [`plan`] chooses settings for a user's own data, [`own`] makes a run of them; [`device`]
//! says where all of it is computed, and [`engine`] computes it on the processor.

pub mod arch;
pub mod broken_off;
pub mod config;
pub mod deploy;
pub mod device;
pub mod energy;
pub mod engine;
pub mod eval;
pub mod export;
pub mod features;
pub mod form;
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
