//! Every preset of the paper trains, on made-up data and with narrow networks, and what is done to images first travels
//! in the model.

use std::path::{Path, PathBuf};

use crate::harness::{nae_train, refused, run, train};
use burn::tensor::Device;
use nae_data::own::Corrupt;
use nae_infer::image::{GrayImage, Luma, Rgb, RgbImage};
use nae_infer::{BackendKind, Detector};
use nae_onnx::check::{Limits, check};
use nae_onnx::metadata::{Fit, Transforms};
use nae_train::config::preset::{self, PRESETS};
use nae_train::config::{ArchitectureConfig, Config};
use nae_train::engine::Engine;
use nae_train::eval::energies;
use nae_train::methods;
use nae_train::report::RunFolder;
use tempfile::TempDir;

/// The longest name is one of those that are listed, and all descriptions begin in one column.
#[test]
fn the_list_of_presets_has_two_columns() {
    let listed = String::from_utf8(run(nae_train().arg("presets")).stdout).unwrap();
    let begin = |line: &str| {
        let name = line.find(' ').unwrap();
        name + line[name..].find(|letter| letter != ' ').unwrap()
    };
    let columns: Vec<usize> = listed.lines().map(begin).collect();
    let longest = PRESETS.iter().map(|preset| preset.name.len()).max().unwrap();
    assert_eq!(columns, vec![longest + 2; PRESETS.len()], "{listed}");
}

/// The preset `name` with a narrow network and few updates, as a file.
fn small(folder: &Path, name: &str, change: impl FnOnce(&mut nae_train::config::RawConfig)) -> PathBuf {
    let mut raw = preset::load(name).unwrap().raw().clone();
    match &mut raw.architecture {
        ArchitectureConfig::Conv28 { width, .. } | ArchitectureConfig::Conv32 { width, .. } => *width = 2,
        ArchitectureConfig::Conv32Big { width, groups, .. } => (*width, *groups) = (4, 2),
        ArchitectureConfig::Conv64 { encoder_width, decoder_width, groups, .. } => {
            (*encoder_width, *decoder_width, *groups) = (2, 2, 2);
        }
        other => unreachable!("{other:?}"),
    }
    *raw.architecture.latent_dim_mut() = 4;
    (raw.pretraining.epochs, raw.pretraining.batch_size) = (1, 32);
    (raw.training.updates, raw.training.batch_size, raw.stopping.every) = (2, 8, 1);
    raw.sampler.visible_chain.steps = 2;
    raw.sampler.latent_chain.as_mut().unwrap().steps = 2;
    raw.calibration.false_positive_rate = 0.5;
    change(&mut raw);
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, toml::to_string(Config::new(raw).unwrap().raw()).unwrap()).unwrap();
    path
}

/// `count` coloured images as files.
fn pictures(folder: &Path, count: u32, width: u32, height: u32) {
    std::fs::create_dir_all(folder).unwrap();
    for n in 0..count {
        let picture = RgbImage::from_fn(width, height, |x, y| Rgb([(x * (n % 5 + 1)) as u8, (y * 3 + n) as u8, 99]));
        picture.save(folder.join(format!("{n:03}.png"))).unwrap();
    }
}

/// CelebA's folder in `data`: 80 images to train on, 20 to watch and to calibrate, 20 to test.
pub(crate) fn celeba(data: &Path) {
    // Larger than the crop, so that there is something to leave out.
    pictures(&data.join("img_align_celeba"), 120, 178, 218);
    let part = |n: u32| [80, 100].iter().filter(|&&first| n >= first).count();
    let lines: String = (0..120).map(|n| format!("{n:03}.png {}\n", part(n))).collect();
    std::fs::write(data.join("list_eval_partition.txt"), lines).unwrap();
}

/// Where made-up data of the preset `name` are.
fn data(folder: &Path, name: &str) -> PathBuf {
    let data = folder.join(format!("data-{name}"));
    write(&data, name);
    data
}

/// Writes made-up data of the preset `name` into the folder `data`.
pub(crate) fn write(data: &Path, name: &str) {
    std::fs::create_dir_all(data).unwrap();
    match name {
        "mnist-ood" => crate::made_up_mnist::write(data),
        "cifar10-ood" => {
            for (n, file) in (1..=5).map(|n| (n, format!("data_batch_{n}.bin"))).chain([(6, "test_batch.bin".into())]) {
                let record = |k: usize| (0..3073).map(move |at| if at == 0 { k % 10 } else { k * 7 + at * n } as u8);
                std::fs::write(data.join(file), (0..30).flat_map(record).collect::<Vec<u8>>()).unwrap();
            }
        }
        "imagenet32-ood" => {
            pictures(&data.join("train_32x32"), 120, 32, 32);
            pictures(&data.join("valid_32x32"), 30, 32, 32);
        }
        _ => celeba(data),
    }
}

#[test]
fn every_preset_of_the_paper_trains_on_data_of_its_form() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let names = ["mnist-ood", "cifar10-ood", "imagenet32-ood", "celeba64-sample"];
    assert!(names.iter().all(|name| PRESETS.iter().any(|preset| preset.name == *name)));
    for name in names {
        let file = small(path, name, |_| ());
        let data = data(path, name);
        let output = run(&mut train(path, name, "--preset", &file, &["--quiet", "--data", data.to_str().unwrap()]));
        assert!(output.status.success(), "{name}: {output:?}");
        let exported = path.join(format!("{name}.onnx"));
        let model = check(&std::fs::read(&exported).unwrap(), &Limits::default()).unwrap();
        let transforms = model.metadata().unwrap().unwrap().transforms;
        let crop = if name == "celeba64-sample" { Some(140) } else { None };
        assert_eq!(transforms, Transforms { crop, ..Transforms::default() }, "{name}");
        // Group normalization needs tract, which a build of this crate alone does not have.
        if BackendKind::Tract.is_built_in() {
            assert_eq!(Detector::open(exported).unwrap().settings().transforms, transforms, "{name}");
        }
    }
}

#[test]
fn transforms_are_the_same_in_training_and_in_scoring() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let transforms = Transforms { crop: None, fit: Fit::Pad, invert: true };
    // Grey images of 28 pixels for a network that takes coloured ones of 32.
    let file = small(path, "cifar10-ood", |raw| {
        raw.data.source = nae_data::Source::Mnist;
        raw.data.transforms = transforms;
    });
    let data = data(path, "mnist-ood");
    let output = run(&mut train(path, "one", "--preset", &file, &["--quiet", "--data", data.to_str().unwrap()]));
    assert!(output.status.success(), "{output:?}");
    let detector = Detector::builder().backend(BackendKind::Native).open(path.join("one.onnx")).unwrap();
    assert_eq!(detector.settings().transforms, transforms);
    let (config, _) = RunFolder::read(&path.join("one")).unwrap();
    let model = methods::load(&config, &path.join("one/checkpoint.safetensors"), &Device::flex()).unwrap();
    let loaded = config.source().load(Some(&data), &config.form(), Corrupt::Refuse).unwrap();
    let test = loaded.test.unwrap();
    let raw = std::fs::read(data.join("t10k-images-idx3-ubyte")).unwrap();
    for (n, energy) in energies(&*model, &test, Engine::Burn, &Device::flex()).into_iter().enumerate() {
        let image = GrayImage::from_fn(28, 28, |x, y| Luma([raw[16 + n * 784 + (y * 28 + x) as usize]]));
        let scored = detector.score(&image.into()).unwrap().energy;
        assert!((scored - energy).abs() <= 1e-4 * energy, "{n}: {scored} {energy}");
    }
    assert_eq!(test.image(0)[0], 0.0, "padding is black, inverted or not");

    let file = small(path, "cifar10-ood", |_| ());
    let text = std::fs::read_to_string(&file).unwrap();
    for (from, to, named) in [
        ("flip = true", "flop = true", "flop"),
        ("[data.augmentation]", "[data.transforms]\nfit = 'squeeze'\n[data.augmentation]", "squeeze"),
        ("[data.augmentation]", "[data.transforms]\ncrop = 0\n[data.augmentation]", "data.transforms.crop"),
        ("\"cifar10\"", "\"mnist\"", "architecture.kind"),
    ] {
        assert!(text.contains(from), "{from} is not in {text}");
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let message = refused(&mut train(path, "no", "--preset", &file, &[]));
        assert!(message.contains(named), "{message}");
    }
}

/// Flips and dequantization are drawn from the run's seed, and a run that goes on draws the same.
#[test]
fn augmented_runs_repeat_and_go_on() {
    use nae_train::train::BatchOrder;
    let augmentation = preset::load("cifar10-ood").unwrap().augmentation();
    let shape = nae_core::Shape::new(3, 4, 4);
    let set = nae_data::ImageSet::new(shape, vec![0.5; 10 * 48], vec![0; 10]).unwrap();
    let device = Device::flex();
    let mut one = BatchOrder::new(10, nae_train::seed::Stream::Batches.of(7));
    let draw = |order: &mut BatchOrder| {
        let indices = order.next(4);
        order.images(&set, &indices, augmentation, &device).into_data().try_into_vec::<f32>().unwrap()
    };
    let first = draw(&mut one);
    assert!(first.iter().all(|v| (127.5 / 256.0..128.5 / 256.0 + 1e-6).contains(v)));
    let mut text = Vec::new();
    serde_json::to_writer(&mut text, &one).unwrap();
    let mut two: BatchOrder = serde_json::from_slice(&text).unwrap();
    let next = draw(&mut one);
    assert_ne!(first, next);
    assert_eq!(next, draw(&mut two));
}
