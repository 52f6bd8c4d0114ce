//! What is computed, against closed forms, finite differences, float64 and burn: energies, gradients, networks, chains,
//! and what is made of them. One program, since every one more is linked with burn again.
#![allow(clippy::unwrap_used)]

mod architectures;
mod chain;
mod dark_images;
mod energies;
mod engine;
mod form;
mod langevin_density;
mod likelihood_gradient;
mod linear_nae;
mod networks;
mod precision;
mod presets;
mod sampler_determinism;
mod sampler_starts;
