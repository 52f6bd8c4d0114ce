//! Every architecture and every layer of the trainer, exported, through tract, ONNX Runtime where its library is there,
//! and nae-core where it has the layers: reconstructions, latents and energies are burn's.
#![allow(clippy::unwrap_used)]

#[path = "../../../nae-train/tests/method/networks.rs"]
mod networks;

use std::path::Path;

use burn::module::Module as _;
use burn::tensor::{Device, Tensor};
use nae_core::contract::Contract;
use nae_core::model::{Preprocessing, ResizeFilter};
use nae_infer::backend::{self, BackendOptions};
use nae_infer::card::ModelFile;
use nae_infer::{BackendKind, Detector, Limits};
use nae_onnx::metadata::{Geometry, Latent, ModelMetadata, Provenance};
use nae_train::arch::{Autoencoder, AutoencoderSpec, LatentSpace};
use nae_train::energy::energy;
use nae_train::export::graph;
use nae_train::sample::NoiseSource;

/// Images compared.
const N: usize = 4;
/// Part of an energy, and of a sample's largest value, that may be missed.
const RELATIVE: f32 = 1e-5;
/// The same for single values of networks at full width, whose sums have up to 12,800 terms.
const RELATIVE_WIDE: f32 = 1e-4;
/// What may be missed beside it.
const ABSOLUTE: f32 = 1e-7;

fn metadata(spec: &AutoencoderSpec) -> ModelMetadata {
    let mut contract = Contract::new(spec.image());
    contract.preprocessing = Preprocessing::unit(ResizeFilter::BilinearAlignCorners);
    ModelMetadata {
        latent: Some(Latent {
            geometry: match spec.latent_space() {
                LatentSpace::Sphere => Geometry::Sphere,
                LatentSpace::Euclidean => Geometry::Euclidean,
            },
            dimension: spec.latent_dim(),
        }),
        provenance: Provenance {
            architecture: spec.name().to_owned(),
            method: "none: random weights".to_owned(),
            data_description: "none".to_owned(),
            data_sha256: String::new(),
            seed: 1,
            crate_version: "tests".to_owned(),
        },
        ..ModelMetadata::new(contract)
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().unwrap()
}

/// Largest error in each sample beyond what may be missed; negative where all is well.
fn excess(found: &[f32], expected: &[f32], samples: usize, relative: f32) -> f32 {
    assert_eq!(found.len(), expected.len());
    let len = found.len() / samples;
    let mut worst = f32::NEG_INFINITY;
    for (found, expected) in found.chunks(len).zip(expected.chunks(len)) {
        let largest = expected.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        for (f, e) in found.iter().zip(expected) {
            let excess = (f - e).abs() - (relative * largest + ABSOLUTE);
            worst = if excess.is_nan() { f32::INFINITY } else { worst.max(excess) };
        }
    }
    worst
}

/// A network with its exported file, and what burn makes of some images.
struct Case {
    spec: AutoencoderSpec,
    onnx: Vec<u8>,
    images: Vec<f32>,
    reconstructions: Vec<f32>,
    latents: Vec<f32>,
    energies: Vec<f32>,
}

impl Case {
    fn new(spec: AutoencoderSpec) -> Self {
        let model: Autoencoder = networks::trained_scale(&spec, 1).valid();
        let shape = spec.image();
        let x = NoiseSource::new(2, 0).uniform([N, shape.channels, shape.height, shape.width], &Device::flex());
        let z = model.encode(x.clone());
        Self {
            onnx: graph::autoencoder(&model, None, &spec, &metadata(&spec)).unwrap(),
            images: values(x.clone()),
            reconstructions: values(model.decode(z.clone())),
            latents: values(z),
            energies: values(energy(&model, x)),
            spec,
        }
    }

    fn compare(&self, kind: BackendKind, relative: f32) {
        let file = ModelFile::parse(self.onnx.clone(), &Limits::default()).unwrap();
        let backend = backend::load(&file, kind.into(), &BackendOptions::default(), self.images.len() / N).unwrap();
        let found = backend.reconstruct(&self.images).unwrap();
        let detector = Detector::builder().backend(kind).read(self.onnx.clone(), self.spec.name()).unwrap();
        let scored = detector.score_prepared(&self.images).unwrap();
        let energies: Vec<f32> = scored.iter().map(|s| s.energy).collect();
        for (what, found, expected, relative) in [
            ("reconstruction", &found.images, &self.reconstructions, relative),
            ("latent", &found.latents.unwrap(), &self.latents, relative),
            ("energy", &energies, &self.energies, RELATIVE),
        ] {
            let excess = excess(found, expected, N, relative);
            assert!(excess <= 0.0, "{} in {}: {what} off by {excess} too much", self.spec.name(), kind.name());
        }
    }
}

fn every_network() -> impl Iterator<Item = AutoencoderSpec> {
    networks::architectures().into_iter().chain(networks::layers())
}

/// Small differences tell nothing of reconstructions that are all the same.
#[test]
fn the_networks_reconstruct_something() {
    for spec in every_network() {
        let case = Case::new(spec);
        let len = case.reconstructions.len() / N;
        let (first, second) = (&case.reconstructions[..len], &case.reconstructions[len..2 * len]);
        let apart = first.iter().zip(second).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(apart > 1e-2, "{}: two reconstructions are {apart} apart", case.spec.name());
    }
}

#[test]
fn tract_agrees_with_burn() {
    every_network().for_each(|spec| Case::new(spec).compare(BackendKind::Tract, RELATIVE));
}

/// At the sizes of the paper; Conv64's table, of 340 MB, has those of the code.
#[test]
fn tract_agrees_with_burn_at_full_width() {
    if std::env::var_os("NAE_SLOW_TESTS").is_none() {
        println!("skipped: set NAE_SLOW_TESTS=1 to export the paper's networks at full width");
        return;
    }
    networks::full_width().into_iter().for_each(|spec| Case::new(spec).compare(BackendKind::Tract, RELATIVE_WIDE));
}

#[test]
fn simd_agrees_with_burn_at_full_width() {
    if std::env::var_os("NAE_SLOW_TESTS").is_none() {
        println!("skipped: set NAE_SLOW_TESTS=1 to export the paper's networks at full width");
        return;
    }
    let lowered = |case: &Case| nae_onnx::lower::to_nae(&case.onnx).is_ok();
    let cases = networks::full_width().into_iter().map(Case::new).filter(lowered);
    cases.for_each(|case| case.compare(BackendKind::Simd, RELATIVE_WIDE));
}

/// Leaves the exported files, with images and burn's energies, for `tests/python/check_onnx.py`, which `tests/run.sh`
/// runs on them.
#[test]
fn the_exported_files_are_left_for_the_python_check() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("architectures");
    // Files of networks that are no longer in the list would be checked with the others.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    for (index, spec) in networks::architectures().into_iter().enumerate() {
        let case = Case::new(spec);
        let image = case.spec.image();
        let kind = case.spec.name().split(' ').next().unwrap().to_owned();
        let path = |suffix: &str| folder.join(format!("{index:02}-{kind}.{suffix}"));
        nae_onnx::file::write(path("onnx"), &case.onnx).unwrap();
        let shape = [N, image.channels, image.height, image.width];
        parity::vectors::write(&path("images.npy"), &shape, &case.images).unwrap();
        parity::vectors::write(&path("energies.npy"), &[N], &case.energies).unwrap();
    }
}

#[test]
fn onnx_runtime_agrees_with_burn() {
    if std::env::var_os("ORT_DYLIB_PATH").is_none_or(|path| path.is_empty()) {
        assert!(std::env::var_os("NAE_EVERY_RUNTIME").is_none(), "ORT_DYLIB_PATH does not name ONNX Runtime's library");
        println!("not run: ORT_DYLIB_PATH does not name ONNX Runtime's library");
        return;
    }
    every_network().for_each(|spec| Case::new(spec).compare(BackendKind::Ort, RELATIVE));
}

#[test]
fn nae_core_and_simd_agree_with_burn_where_they_have_the_layers() {
    let mut lowered = Vec::new();
    for spec in every_network() {
        let case = Case::new(spec);
        let name = case.spec.name().to_owned();
        match nae_onnx::lower::to_nae(&case.onnx) {
            Ok(_) => {
                case.compare(BackendKind::Native, RELATIVE);
                case.compare(BackendKind::Simd, RELATIVE);
                lowered.push(name);
            }
            Err(error) => {
                let error = error.to_string();
                if error.contains("a softmax, which a .nae file has no form for") {
                    case.compare(BackendKind::Simd, RELATIVE);
                    continue;
                }
                assert!(error.contains("it reorders the elements of feature maps"), "{name}: {error}");
            }
        }
    }
    for needed in
        ["fc-res2", "conv28", "conv32 ", "dense image=640", "dense image=3x4x5", "small-conv16", "small-conv28"]
    {
        assert!(lowered.iter().any(|name| name.starts_with(needed)), "{needed} is not lowered: {lowered:?}");
    }
    // All layers but the reshape of maps and the softmax.
    assert_eq!(lowered.iter().filter(|name| !name.contains('=')).count(), networks::layers().len() - 2, "{lowered:?}");
}

/// A network of points in the plane takes prepared values only.
#[test]
fn a_network_of_vectors_refuses_image_files() {
    let case = Case::new(networks::architectures().remove(0));
    let detector = Detector::builder().backend(BackendKind::Native).read(case.onnx, "points.onnx").unwrap();
    let pixels = nae_infer::input::Pixels { shape: nae_core::Shape::new(1, 1, 1), values: vec![0.5] };
    let error = detector.score_pixels(&pixels).unwrap_err().to_string();
    assert!(error.contains("2x1x1") && error.contains("score_prepared"), "{error}");
}
