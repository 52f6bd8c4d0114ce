//! Times what training consists of, engine against burn, in turns: a visible step (∇E of images), a latent step (∇H of
//! latents), ten visible steps as the paper's chain makes them (clipped, with noise, between 0 and 1), and an update
//! (weight gradients for data and negative samples, and Adam), batch 128.
//!
//! `cargo bench -p nae-train --bench steps` prints a table. The machine may be busy: what is compared is the least time
//! of interleaved rounds. `-- --rounds N` says how many, `-- --only conv28` chooses a network, `-- --threads N` how
//! many threads the batch is shared among. With `-- --serve conv28`
//! it runs one step for each line (`visible`, `latent`, `chain` or `update`) on standard input and answers with wall and
//! processor seconds: `tests/peers` asks it so. `-- --serve conv28 --device wgpu` does that on a graphics card.
#![allow(clippy::expect_used)]

use std::io::BufRead as _;
use std::time::Instant;

use burn::tensor::{Device, Tensor};
use cpu_time::ProcessTime;
use nae_train::arch::conv28;
use nae_train::arch::fc_res2;
use nae_train::arch::{Autoencoder, AutoencoderSpec, LatentSpace};
use nae_train::config::{Training, preset};
use nae_train::device::DeviceChoice;
use nae_train::engine::Engine;
use nae_train::methods::nae::{NaeMethod, NormalizedAutoencoder};
use nae_train::sample::{
    Annealing, Bounds, ClipBy, FrozenEnergy, GradientClip, Langevin, Leaving, NegativeSampler, NoiseSource, Precision,
};
use nae_train::shard;

const BATCH: usize = 128;
const STEPS: [&str; 4] = ["visible", "latent", "chain", "update"];

/// A network with what each step needs.
struct Workload {
    frozen: Box<dyn FrozenEnergy>,
    chain: Langevin,
    noise: NoiseSource,
    method: NaeMethod,
    x: Tensor<4>,
    z: Tensor<4>,
    device: Device,
}

impl Workload {
    fn new(spec: &AutoencoderSpec, engine: Engine, device: Device) -> Self {
        let image = spec.image();
        let shape = [image.channels, image.height, image.width];
        let model = Autoencoder::new(spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        let x = NoiseSource::new(1, 0).uniform([BATCH, shape[0], shape[1], shape[2]], &device);
        let z = NoiseSource::new(2, 0).latents(spec.latent_space(), BATCH, spec.latent_dim(), &device);
        let config = preset::load("digits").expect("comes with the program");
        let training = Training { learning_rate: 1e-5, ..config.training() };
        let sampler = NegativeSampler::new(config.sampler(), spec.latent_dim(), NoiseSource::new(3, 0));
        let chain = Langevin {
            annealing: Annealing::Harmonic,
            gradient_clip: Some(GradientClip { limit: 0.01, by: ClipBy::Element }),
            bounds: Some(Bounds { min: 0.0, max: 1.0, leaving: Leaving::Clamp }),
            ..Langevin::new(10, 10.0, 0.05)
        };
        let frozen = engine.freeze(&model, shape, Precision::F32, &device);
        let method = NaeMethod::new(NormalizedAutoencoder::new(model, 1.0), &training, sampler, engine, &device);
        Self { frozen, chain, noise: NoiseSource::new(4, 0), method, x, z, device }
    }

    /// Wall and processor seconds of one step.
    fn time(&mut self, step: &str) -> [f64; 2] {
        let (wall, cpu) = (Instant::now(), ProcessTime::now());
        match step {
            "visible" => drop(self.frozen.visible(self.x.clone())),
            "latent" => drop(self.frozen.latent(self.z.clone())),
            "chain" => drop(self.frozen.visible_chain(&self.chain, self.x.clone(), 1.0, &mut self.noise)),
            _ => drop(self.method.update_against(self.x.clone(), self.x.clone().mul_scalar(0.5))),
        }
        // A card is told what to do, and does it later.
        self.device.sync().expect("the device computes");
        [wall.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64()]
    }
}

fn networks() -> Vec<(&'static str, AutoencoderSpec)> {
    vec![
        ("conv28", conv28(32, 32, LatentSpace::Sphere).expect("a valid architecture")),
        ("fc-res2", fc_res2(5, 256, 1024, 2, LatentSpace::Sphere).expect("a valid architecture")),
    ]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let threads = arguments.iter().position(|a| a == "--threads").and_then(|at| arguments.get(at + 1)?.parse().ok());
    match threads {
        Some(threads) => shard::with_threads(threads, || run(&arguments)),
        None => run(&arguments),
    }
}

fn run(arguments: &[String]) {
    let after = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1));
    let chosen = |name: &str| networks().into_iter().find(|(n, _)| *n == name).expect("conv28 or fc-res2");
    if let Some(name) = after("--serve") {
        let device: DeviceChoice =
            after("--device").map_or(Ok(DeviceChoice::Cpu), |name| name.parse()).expect("a device");
        let engine = if device == DeviceChoice::Cpu { Engine::Cpu } else { Engine::Burn };
        let mut workload = Workload::new(&chosen(name).1, engine, device.open().expect("it opens").device);
        for step in std::io::stdin().lock().lines().map_while(Result::ok) {
            let [wall, cpu] = workload.time(&step);
            println!("{wall} {cpu}");
        }
        return;
    }
    let rounds: usize = after("--rounds").and_then(|n| n.parse().ok()).unwrap_or(10);
    println!(
        "{:8} {:8} {:>28} {:>28} {:>18}",
        "", "", "engine, ms (wall, cpu)", "burn, ms (wall, cpu)", "burn / engine"
    );
    for (name, spec) in after("--only").map_or_else(networks, |name| vec![chosen(name)]) {
        let mut sides = [Engine::Cpu, Engine::Burn].map(|engine| Workload::new(&spec, engine, Device::flex()));
        for step in STEPS {
            let mut best = [[f64::INFINITY; 2]; 2];
            for _ in 0..rounds {
                for (side, best) in sides.iter_mut().zip(&mut best) {
                    for (best, time) in best.iter_mut().zip(side.time(step)) {
                        *best = best.min(time);
                    }
                }
            }
            let [engine, burn] = best.map(|times| times.map(|seconds| seconds * 1e3));
            println!(
                "{name:8} {step:8} {:>14.1} {:>13.1} {:>14.1} {:>13.1} {:>9.2} {:>8.2}",
                engine[0],
                engine[1],
                burn[0],
                burn[1],
                burn[0] / engine[0],
                burn[1] / engine[1]
            );
        }
    }
}
