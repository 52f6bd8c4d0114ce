//! Outliers between two clusters (paper, figure "AE and NAE trained on a bi-modal distribution"): the decoder of an
//! autoencoder with one latent dimension maps to a line from one cluster to the other, and points on it are
//! reconstructed. NAE training with a fixed decoder makes the encoder map them elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::module::Module as _;
use burn::tensor::Device;
use plotters::coord::Shift;
use plotters::prelude::*;
use rand::{Rng, RngExt as _};
use serde_json::json;

use super::{Made, PicturesError};
use crate::density::{batch, points};
use crate::experiments::Scale;
use nae_train::arch::{Autoencoder, LatentSpace};
use nae_train::arch::{DenseOutput, dense};
use nae_train::config::Regularization;
use nae_train::config::{Pretraining, Training};
use nae_train::energy::mean;
use nae_train::engine::EngineChoice;
use nae_train::eval::auroc;
use nae_train::methods::autoencoder::AutoencoderMethod;
use nae_train::methods::nae::{NaeMethod, NormalizedAutoencoder};
use nae_train::methods::{Decision, Method as _, Model};
use nae_train::sample::{Bounds, Leaving};
use nae_train::sample::{Langevin, NegativeSampler, Precision, SamplerConfig, Start};
use nae_train::seed::Stream;

/// The midpoints of the clusters, which are squares of side 1.
const CLUSTERS: [[f32; 2]; 2] = [[-1.5, 0.0], [1.5, 0.0]];
const BATCH: usize = 128;
/// The number of points of each kind that are measured, and the number that are shown.
const MEASURED: usize = 400;
const SHOWN: usize = 40;
const TEMPERATURE: f32 = 0.05;
/// Half of the picture's side.
const HALF: f64 = 2.5;

/// Trains both models, and draws their reconstructions of normal points and of points between the clusters.
///
/// # Errors
/// [`PicturesError`]; [`PicturesError::Interrupted`] soon after `stop` is set.
pub fn bimodal(scale: Scale, seed: u64, device: &Device, stop: &AtomicBool) -> Result<Made, PicturesError> {
    let (pretraining_updates, updates) = match scale {
        Scale::Smoke => (20, 5),
        Scale::Cpu | Scale::Paper => (4000, 1000),
    };
    let spec = dense(nae_core::Shape::vector(2), &[64, 64, 64], 1, DenseOutput::Linear, LatentSpace::Euclidean)?;
    let engine = EngineChoice::Auto.engine(&spec)?;
    let start = Autoencoder::new(&spec, Stream::Weights.of(seed).rng(), &device.clone().autodiff());
    let mut data = Stream::Batches.of(seed);
    let settings = Pretraining::new(1, BATCH, 1e-3);
    let mut method = AutoencoderMethod::new(start, settings, None, engine, device);
    for _ in 0..pretraining_updates {
        if stop.load(Ordering::Relaxed) {
            return Err(PicturesError::Interrupted);
        }
        method.update(batch(&clusters(BATCH, data.rng()), device));
    }
    let plain = method.into_trained();

    let training = Training {
        updates,
        batch_size: BATCH,
        learning_rate: 1e-3,
        final_learning_rate: None,
        encoder_learning_rate: None,
        decoder_learning_rate: None,
        temperature_learning_rate: None,
        fixed_decoder: true,
        fixed_manifold: false,
        average: None,
        negative_bound: None,
        positive_bound: None,
        reference_energy: None,
        regularization: Regularization {
            negative_energy: 1.0,
            positive_energy: 0.0,
            encoder_l2: 0.0,
            decoder_l2: 0.0,
            latent_norm: 0.0,
        },
    };
    let normalized = NormalizedAutoencoder::new(plain.clone(), TEMPERATURE);
    let sampler = NegativeSampler::new(sampler(), 1, Stream::Chains.of(seed));
    let mut method = NaeMethod::new(normalized, &training, sampler, engine, device);
    for _ in 0..updates {
        if stop.load(Ordering::Relaxed) {
            return Err(PicturesError::Interrupted);
        }
        method.update(batch(&clusters(BATCH, data.rng()), device));
    }

    let mut fresh = Stream::Evaluation.of(seed);
    let (normal, between) = (clusters(MEASURED, fresh.rng()), middle(MEASURED, fresh.rng()));
    let measured = [("autoencoder", &plain as &dyn Model), ("nae", method.model())].map(|(name, model)| {
        let of = |x: &[[f32; 2]]| -> Vec<f32> {
            model.decide(Decision::Reconstruction, batch(x, device)).into_data().iter::<f32>().collect()
        };
        let (inliers, outliers) = (of(&normal), of(&between));
        let figures = json!({
            "normal_energy": mean(&inliers),
            "between_energy": mean(&outliers),
            "auroc": auroc(&inliers, &outliers),
        });
        (name, model, figures)
    });
    let panels: Vec<Panel> = measured
        .iter()
        .filter_map(|(name, model, _)| Some(Panel::of(name, model.autoencoder()?, &normal, &between, device)))
        .collect();
    let picture = draw(&panels).map_err(|error| PicturesError::Draw(error.to_string()))?;
    let figures: serde_json::Map<_, _> =
        measured.into_iter().map(|(name, _, figures)| (name.to_owned(), figures)).collect();
    Ok(Made {
        figures: json!({ "pretraining_updates": pretraining_updates, "updates": updates, "models": figures }),
        pictures: vec![("clusters.svg", picture.into_bytes())],
    })
}

/// On-manifold initialization, with the Langevin step sizes of the other experiments in two dimensions.
fn sampler() -> SamplerConfig {
    let bounds = Some(Bounds { min: -4.0, max: 4.0, leaving: Leaving::Reject });
    SamplerConfig {
        start: Start::OnManifold { replay_buffer: None },
        temperature: TEMPERATURE,
        latent_chain: Some(Langevin::with_noise(10, 0.1)),
        visible_chain: Langevin { bounds, ..Langevin::with_noise(30, 0.05) },
        precision: Precision::F32,
        reuse: None,
    }
}

fn clusters(count: usize, rng: &mut impl Rng) -> Vec<[f32; 2]> {
    let point = |_| CLUSTERS[rng.random_range(0..2)].map(|middle| middle + rng.random::<f32>() - 0.5);
    (0..count).map(point).collect()
}

/// Points between the clusters: a square of side 1 around the origin.
fn middle(count: usize, rng: &mut impl Rng) -> Vec<[f32; 2]> {
    (0..count).map(|_| [(); 2].map(|()| rng.random::<f32>() - 0.5)).collect()
}

struct Panel {
    title: String,
    manifold: Vec<(f64, f64)>,
    normal: Vec<[(f64, f64); 2]>,
    between: Vec<[(f64, f64); 2]>,
}

impl Panel {
    fn of(name: &str, autoencoder: &Autoencoder, normal: &[[f32; 2]], between: &[[f32; 2]], device: &Device) -> Self {
        let model = autoencoder.valid();
        let at = |point: [f32; 2]| (f64::from(point[0]), f64::from(point[1]));
        let pairs = |x: &[[f32; 2]]| -> Vec<[(f64, f64); 2]> {
            let x = &x[..SHOWN.min(x.len())];
            let ends = points(model.reconstruct(batch(x, device)));
            x.iter().zip(ends).map(|(x, end)| [at(*x), at(end)]).collect()
        };
        // The decoder's line, over the range of the points' latents.
        let latents: Vec<f32> = model.encode(batch(normal, device)).into_data().iter::<f32>().collect();
        let (low, high) = latents.iter().fold((0f32, 0f32), |(low, high), z| (low.min(*z), high.max(*z)));
        let line: Vec<f32> = (0..=200).map(|k| low + (high - low) * k as f32 / 200.0).collect();
        let count = line.len();
        let z = burn::tensor::Tensor::from_data(burn::tensor::TensorData::new(line, [count, 1, 1, 1]), device);
        let manifold = points(model.decode(z)).into_iter().map(at).collect();
        let title = if name == "nae" { "NAE, decoder as it was" } else { "autoencoder" };
        Self { title: title.to_owned(), manifold, normal: pairs(normal), between: pairs(between) }
    }
}

fn draw(panels: &[Panel]) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (360 * panels.len().max(1) as u32, 380)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((1, panels.len().max(1))).iter().zip(panels) {
        draw_panel(area, panel)?;
    }
    root.present()?;
    drop(root);
    Ok(svg)
}

fn draw_panel(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel) -> Result<(), Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(20)
        .y_label_area_size(26)
        .build_cartesian_2d(-HALF..HALF, -HALF..HALF)?;
    chart.configure_mesh().disable_mesh().draw()?;
    let (green, blue, red) = (RGBColor(60, 140, 70), RGBColor(38, 110, 180), RGBColor(214, 84, 32));
    let all = panel.normal.iter().chain(&panel.between);
    chart.draw_series(all.map(|pair| PathElement::new(pair.to_vec(), RGBColor(150, 150, 150))))?;
    chart.draw_series(std::iter::once(PathElement::new(panel.manifold.clone(), green.stroke_width(2))))?;
    chart.draw_series(panel.normal.iter().map(|[x, _]| Circle::new(*x, 2, blue.filled())))?;
    chart.draw_series(panel.between.iter().map(|[x, _]| Cross::new(*x, 3, red)))?;
    Ok(())
}
