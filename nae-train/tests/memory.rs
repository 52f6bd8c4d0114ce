//! A long run needs no more memory than a short one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use burn::tensor::Device;
use nae_train::arch::small_conv16;
use nae_train::arch::{Autoencoder, LatentSpace};
use nae_train::config::preset;
use nae_train::engine::Engine;
use nae_train::methods::Method as _;
use nae_train::methods::autoencoder::AutoencoderMethod;
use nae_train::sample::NoiseSource;

/// Memory of this process in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// burn notes every tensor it tracks; of the weights of past updates, nothing may be left.
#[test]
fn updates_leave_nothing_behind() {
    const UPDATES: usize = 1500;
    let device = Device::flex();
    let spec = small_conv16(1, 1, 2, LatentSpace::Sphere).unwrap();
    let start = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
    let pretraining = preset::load("digits").unwrap().pretraining();
    let mut method = AutoencoderMethod::new(start, pretraining, None, Engine::Cpu, &device);
    let x = NoiseSource::new(1, 0).uniform([1, 1, 16, 16], &device);
    let mut run = || (0..UPDATES).for_each(|_| drop(method.update(x.clone())));
    run();
    let before = resident();
    run();
    let grown = resident().saturating_sub(before);
    assert!(grown < 2 << 20, "{UPDATES} updates left {grown} bytes");
}
