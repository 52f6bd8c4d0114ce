//! The program as a user meets it: runs, data, experiments, evaluation, what comes back after a kill. One test program,
//! since every one more is linked with burn again.
#![allow(clippy::unwrap_used)]

mod cells;
mod changed;
mod cli;
mod deploy_int8;
mod documents;
mod eval;
mod foreign_state;
mod gather;
mod harness;
mod made_up_mnist;
mod main_job;
mod own_data;
mod own_features;
mod own_folder;
mod own_parts;
mod own_run;
mod pictures;
mod presets;
mod reproduce;
mod resume;
#[cfg(target_os = "linux")]
mod streams;
