//! Thin white bars on black: a network that goes black at first has to come back.

use std::sync::atomic::AtomicBool;

use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use nae_core::energy::Energy;
use nae_data::ImageSet;
use nae_data::Loaded;
use nae_data::own::OwnImages;
use nae_onnx::metadata::Transforms;
use nae_train::arch::Autoencoder;
use nae_train::config::Config;
use nae_train::engine::Engine;
use nae_train::eval::energies;
use nae_train::plan;
use nae_train::run::Prepared;
use nae_train::seed::Stream;

const SIDE: usize = 28;

fn bars() -> ImageSet {
    let count = 400;
    let values = (0..count).flat_map(|n| {
        let (from, upright) = (4 + n * 7 % 20, n % 2 == 0);
        (0..SIDE * SIDE).map(move |at| {
            let (x, y) = if upright { (at % SIDE, at / SIDE) } else { (at / SIDE, at % SIDE) };
            if (from..from + 2).contains(&x) && (6..22).contains(&y) { 1.0 } else { 0.0 }
        })
    });
    ImageSet::new(Shape::new(1, SIDE, SIDE), values.collect(), vec![0; count]).unwrap()
}

fn planned() -> Config {
    let own = OwnImages { title: "bars".to_owned(), channels: 1, side: SIDE, tiles: None };
    let mut raw = plan::draft(&own, Transforms::default(), 400).unwrap().raw().clone();
    raw.pretraining.epochs = 25;
    Config::new(raw).unwrap()
}

#[test]
fn the_plan_for_own_images_learns_more_than_their_mean() {
    let (config, device) = (planned(), Device::flex());
    for seed in 0..4 {
        let loaded = Loaded::whole(bars(), String::new());
        let prepared = Prepared::of(config.clone(), seed, loaded).unwrap();
        let model =
            prepared.train_autoencoder(&prepared.config, Engine::Cpu, &device, &AtomicBool::new(false)).unwrap();
        let (test, mean) = (&prepared.split.test, prepared.split.train.mean());
        let reached = nae_train::energy::mean(&energies(&model, test, Engine::Cpu, &device));
        let about_mean =
            (0..test.len()).map(|n| Energy::SquaredL2.evaluate(test.image(n), &mean, test.shape()).unwrap());
        let about_mean = nae_train::energy::mean(&about_mean.collect::<Vec<_>>());
        assert!(reached < 0.7 * about_mean, "seed {seed}: {reached} against {about_mean}");
    }
}

#[test]
fn outputs_begin_about_the_mean_image() {
    let device = Device::flex();
    let mean: Vec<f32> = (0..SIDE * SIDE).map(|at| if at % 10 == 0 { 1.0 } else { 0.0 }).collect();
    let fresh = Autoencoder::new(planned().architecture(), Stream::Weights.of(0).rng(), &device);
    let x = Tensor::<4>::from_data(TensorData::new(mean.clone(), [1, 1, SIDE, SIDE]), &device);
    let of = |model: &Autoencoder| model.reconstruct(x.clone()).mean().into_scalar::<f32>();
    assert!((of(&fresh) - 0.1).abs() > 0.2, "{}", of(&fresh));
    let begun = fresh.with_output_at(&mean);
    assert!((of(&begun) - 0.1).abs() < 0.03, "{}", of(&begun));
}
