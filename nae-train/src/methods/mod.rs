//! What is minimised. [`autoencoder`] is the plain reconstruction error, [`nae`] the normalised model's loss.
//!
//! Sampling is in [`sample`](crate::sample), the loop in [`train`](crate::train).

pub mod autoencoder;
pub mod nae;
