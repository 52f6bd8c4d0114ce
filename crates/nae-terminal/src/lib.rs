#![doc = include_str!("../README.md")]

#[cfg(feature = "program")]
pub mod interrupt;
#[cfg(feature = "program")]
pub mod manual;
pub mod progress;
#[cfg(feature = "program")]
pub mod verbosity;
