//! Embedded presets, presets in files, and presets recorded by runs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Config;
use super::raw::RawConfig;
use super::text::{TextError, read};

/// An embedded preset.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The value of `--preset` that selects it.
    pub name: &'static str,
    /// The TOML text.
    pub text: &'static str,
}

/// All embedded presets; the first is the default.
pub const PRESETS: &[Preset] = &[
    Preset { name: "digits", text: include_str!("../../presets/digits.toml") },
    Preset { name: "digits-omi", text: include_str!("../../presets/digits-omi.toml") },
    Preset { name: "mnist-holdout", text: include_str!("../../presets/mnist-holdout.toml") },
    Preset { name: "mnist-small", text: include_str!("../../presets/mnist-small.toml") },
    Preset { name: "mnist-ood", text: include_str!("../../presets/mnist-ood.toml") },
    Preset { name: "cifar10-ood", text: include_str!("../../presets/cifar10-ood.toml") },
    Preset { name: "imagenet32-ood", text: include_str!("../../presets/imagenet32-ood.toml") },
    Preset { name: "celeba64-sample", text: include_str!("../../presets/celeba64-sample.toml") },
];

/// The content of `config.toml` in a run folder: a preset with the seed, version and data digest of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The version of the program.
    pub version: String,
    /// The [commit](crate::commit) of the program that began the run, if it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The SHA-256 of the data, in hexadecimal; runs of earlier versions do not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sha256: Option<String>,
    /// The preset as it was used.
    pub preset: RawConfig,
}

/// An error that prevents the use of a preset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PresetError {
    /// The name is neither known nor that of a `.toml` file.
    #[error("unknown preset `{name}`; known: {known}; or give the path of a .toml file")]
    Unknown {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The file cannot be read.
    #[error("{}: cannot be read: {cause}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// The text is not a preset, or a value cannot be used.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Reads the preset called `name`, or the file of that path if it ends in `.toml`: a preset, or `config.toml` of a run
/// folder, whose seed is ignored.
///
/// # Errors
/// [`PresetError`] with the file, the line or key, what was expected and what was found.
pub fn load(name: &str) -> Result<Config, PresetError> {
    if let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) {
        return Ok(parse(preset.text, name)?);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        let known = PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
        return Err(PresetError::Unknown { name: name.to_owned(), known });
    }
    let text = std::fs::read_to_string(path).map_err(|cause| PresetError::Read { path: path.to_owned(), cause })?;
    // The form is determined first, so that errors refer to the right one.
    let recorded = toml::from_str::<toml::Table>(&text).is_ok_and(|table| table.contains_key("preset"));
    if !recorded {
        return Ok(parse(&text, name)?);
    }
    Ok(recorded_run(&text, name)?.0)
}

/// Reads the configuration and the seed of a run from the text of its `config.toml`; `origin` is named in errors.
///
/// # Errors
/// The same as for [`parse`].
pub fn recorded_run(text: &str, origin: &str) -> Result<(Config, u64), TextError> {
    let Recorded { preset, seed, .. } = recorded(text, origin)?;
    Ok((Config::new(preset).map_err(TextError::value(origin))?, seed))
}

/// Reads the text of a run's `config.toml` without checking its values; `origin` is named in errors.
///
/// # Errors
/// [`TextError::Form`] if the text does not have the form of a recorded run.
pub fn recorded(text: &str, origin: &str) -> Result<Recorded, TextError> {
    read(text, origin)
}

/// Reads a preset from its text; `origin` is named in errors.
///
/// # Errors
/// [`TextError`] if the text is not a preset or a value cannot be used.
pub fn parse(text: &str, origin: &str) -> Result<Config, TextError> {
    Config::new(read::<RawConfig>(text, origin)?).map_err(TextError::value(origin))
}

#[cfg(test)]
mod tests {
    use nae_data::Augmentation;

    use super::*;
    use crate::arch::LatentSpace;
    use crate::config::MethodKind;

    #[test]
    fn every_preset_is_valid_and_survives_a_round_trip() {
        for preset in PRESETS {
            let config = load(preset.name).expect(preset.name);
            assert_eq!(config.name(), preset.name);
            let text = toml::to_string(config.raw()).expect("serializes");
            assert_eq!(parse(&text, "again").expect("parses").raw(), config.raw());
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let with = |from: &str, to: &str| {
            let text = PRESETS[0].text.replacen(from, to, 1);
            assert_ne!(text, PRESETS[0].text, "{from} is not in the preset");
            parse(&text, "my.toml").expect_err("invalid").to_string()
        };
        let message = with("max_energy_ratio", "max_energy_rato");
        assert!(message.contains("my.toml") && message.contains("max_energy_rato"), "{message}");
        let message = with("held_out = 1", "held_out = 10");
        assert!(message.contains("data.held_out") && message.contains("10"), "{message}");
        for name in ["", "../../elsewhere", "..", "a\\\\b"] {
            let message = with("name = \"digits\"", &format!("name = \"{name}\""));
            assert!(message.contains("name") && message.contains("does not begin with a dot"), "{message}");
        }
        let message = with("batch_size = 128", "batch_size = 128000");
        assert!(message.contains("`pretraining.batch_size` is 128000; expected 1 to 65536"), "{message}");
        let message = with("step_size = 0.2", "step_size = nan");
        assert!(message.contains("sampler.latent_chain.step_size"), "{message}");
        let message = with("name = \"digits\"", "name = \"digits\"\nenergy = \"l3\"");
        assert!(message.contains("my.toml") && message.contains("l3") && message.contains("ssim"), "{message}");
        let message = with("step_size = 10.0\nnoise = 0.05", "");
        assert!(message.contains("my.toml") && message.contains("`step_size`, `noise` or both"), "{message}");
        let message = load("digts").expect_err("unknown").to_string();
        assert!(message.contains("digts") && message.contains("digits-omi"), "{message}");
        let message = load("absent.toml").expect_err("absent").to_string();
        assert!(message.contains("absent.toml"), "{message}");
    }

    #[test]
    fn the_energy_is_the_presets() {
        use nae_core::energy::Energy;
        for (key, energy) in [
            ("", Energy::SquaredL2),
            ("energy = \"squared-l2\"", Energy::SquaredL2),
            // The name in earlier versions.
            ("energy = \"squared_l2\"", Energy::SquaredL2),
            ("energy = \"l1\"", Energy::L1),
            ("energy = \"ssim\"", Energy::Ssim),
        ] {
            let config = parse(&format!("{key}\n{}", PRESETS[0].text), "my.toml").expect("valid");
            assert_eq!(config.architecture().energy(), energy);
        }
    }

    #[test]
    fn a_rate_falls_by_half_a_cosine() {
        let digits = PRESETS[0].text;
        let constant = parse(digits, "my.toml").expect("valid").pretraining();
        assert_eq!(constant.learning_rate_at(0.7), constant.learning_rate);
        let text = digits
            .replace(
                "[pretraining]",
                "[pretraining]\nfinal_learning_rate = 1e-5\nencoder_l2 = 1e-4\nlatent_norm = 0.01",
            )
            .replace("\"sphere\"", "\"euclidean\"");
        let falling = parse(&text, "my.toml").expect("valid").pretraining();
        let middle = (falling.learning_rate + 1e-5) / 2.0;
        for (share, rate) in [(0.0, falling.learning_rate), (0.5, middle), (1.0, 1e-5)] {
            assert!((falling.learning_rate_at(share) / rate - 1.0).abs() < 1e-12, "{share}");
        }
        assert_eq!((falling.encoder_l2, falling.latent_norm), (1e-4, 0.01));
        for (key, value) in [("final_learning_rate", "0.0"), ("encoder_l2", "-1e-4"), ("latent_norm", "-0.01")] {
            let text = digits.replace("[pretraining]", &format!("[pretraining]\n{key} = {value}"));
            let message = parse(&text, "my.toml").expect_err("refused").to_string();
            assert!(message.contains(&format!("pretraining.{key}")), "{message}");
        }
    }

    #[test]
    fn the_norm_of_latents_is_for_what_is_pre_trained_as_an_autoencoder() {
        let text = PRESETS[0].text.replace("[pretraining]", "[pretraining]\nlatent_norm = 0.01");
        let text = text.replace("\"sphere\"", "\"euclidean\"");
        assert!(parse(&text, "my.toml").is_ok());
        let message = parse(&format!("method = \"wae\"\n{text}"), "my.toml").expect_err("refused").to_string();
        assert!(
            message.contains("pretraining.latent_norm") && message.contains("not trained as an autoencoder"),
            "{message}"
        );
    }

    /// The NAE's own autoencoder is pre-trained in any case; the others are further ones.
    #[test]
    fn an_naes_manifolds_include_its_own() {
        let of = |fixed: bool, dims: &str| {
            let text = PRESETS[0].text.replace("[training]", &format!("[training]\nfixed_manifold = {fixed}"));
            parse(&format!("{text}\n[baselines.mpdr]\nmanifolds = {dims}"), "my.toml")
        };
        let further = |fixed, dims| -> Vec<usize> {
            of(fixed, dims).expect("valid").manifolds().iter().map(crate::arch::AutoencoderSpec::latent_dim).collect()
        };
        assert_eq!(further(true, "[8, 32, 16, 32]"), [8, 16, 32]);
        assert!(further(true, "[]").is_empty() && further(false, "[8]").is_empty());
        let message = of(true, "[8, 16]").expect_err("refused").to_string();
        assert!(message.contains("baselines.mpdr.manifolds") && message.contains("[8, 16]"), "{message}");
    }

    #[test]
    fn settings_without_effect_are_refused() {
        let plain = PRESETS[0].text;
        let with = |text: &str, section: &str, line: &str| {
            let changed = text.replacen(section, &format!("{section}\n{line}"), 1);
            assert_ne!(changed, text, "{section} is not in the preset");
            changed
        };
        let sphere = "latents on the sphere";
        let from_data = plain
            .replace("start = { perturbed_data = { max_scale = 0.3 } }", "start = \"data\"")
            .replace("latent_chain = { steps = 5, step_size = 0.2, noise = 0.05 }\n", "");
        let fixed = with(plain, "[training]", "fixed_decoder = true");
        let ganomaly = format!("method = \"ganomaly\"\nenergy = \"l1\"\n{plain}");
        for (text, key, said) in [
            (with(plain, "[pretraining]", "latent_norm = 0.01"), "pretraining.latent_norm", sphere),
            (
                plain.replace("encoder_l2 = 1e-6", "encoder_l2 = 1e-6, latent_norm = 0.01"),
                "training.regularization.latent_norm",
                sphere,
            ),
            (with(&from_data, "[training]", "fixed_manifold = true"), "training.fixed_manifold", "only latents"),
            (
                with(&fixed, "[training]", "decoder_learning_rate = 1e-4"),
                "training.decoder_learning_rate",
                "fixed_decoder",
            ),
            (
                fixed.replace("encoder_l2 = 1e-6", "encoder_l2 = 1e-6, decoder_l2 = 1e-6"),
                "training.regularization.decoder_l2",
                "fixed_decoder",
            ),
            (ganomaly.clone(), "`energy`", "no reconstruction error"),
            (plain.replace("test = 0.2", "test = 0.0"), "data.split.test", "above 0"),
        ] {
            let message = parse(&text, "my.toml").expect_err(key).to_string();
            assert!(message.contains(key) && message.contains(said), "{message}");
        }
        for valid in [from_data, fixed, ganomaly.replace("ganomaly", "vae")] {
            assert!(parse(&valid, "my.toml").is_ok(), "{valid}");
        }
    }

    #[test]
    fn rates_of_training_fall_together() {
        let digits = PRESETS[0].text;
        let constant = parse(digits, "my.toml").expect("valid").training();
        assert_eq!(constant.rate_factor(constant.updates), 1.0);
        let text = digits.replace("[training]", "[training]\nfinal_learning_rate = 1e-5");
        let falling = parse(&text, "my.toml").expect("valid").training();
        let last = 1e-5 / falling.learning_rate;
        for (update, factor) in [(0, 1.0), (falling.updates / 2, (1.0 + last) / 2.0), (falling.updates, last)] {
            assert!((falling.rate_factor(update) / factor - 1.0).abs() < 1e-12, "{update}");
        }
        let text = digits.replace("[training]", "[training]\nfinal_learning_rate = 0.0");
        let message = parse(&text, "my.toml").expect_err("refused").to_string();
        assert!(message.contains("training.final_learning_rate"), "{message}");
    }

    /// The noise that these methods add themselves must be the only noise.
    #[test]
    fn methods_with_a_likelihood_of_bytes_see_bytes() {
        let preset = PRESETS.iter().find(|preset| preset.name == "cifar10-ood").expect("comes with the program");
        use MethodKind::{Ae, Glow, Nae, Pixelcnn, Vae};
        for method in [Nae, Ae, Vae, Glow, Pixelcnn] {
            let config =
                parse(&format!("method = \"{}\"\n{}", method.name(), preset.text), "cifar.toml").expect("valid");
            let dequantize = !matches!(method, Glow | Pixelcnn);
            assert_eq!(config.augmentation(), Augmentation { flip: true, dequantize }, "{method:?}");
        }
    }

    /// As in the code of the NAE's authors, regardless of the preset's latent space for the NAE.
    #[test]
    fn a_prior_that_is_gaussian_is_in_space() {
        for (method, space) in
            [("nae", LatentSpace::Sphere), ("wae", LatentSpace::Euclidean), ("vae", LatentSpace::Euclidean)]
        {
            let config = parse(&format!("method = \"{method}\"\n{}", PRESETS[0].text), "my.toml").expect("valid");
            assert_eq!(config.architecture().latent_space(), space, "{method}");
        }
    }

    /// A set with its own test files, and a network that fits it.
    #[test]
    fn cifar10_is_a_source_of_presets() {
        let digits = PRESETS[0].text;
        let text = digits
            .replace("source = \"digits\"", "source = \"cifar10\"")
            .replace(", test = 0.2", "")
            .replace("kind = \"small_conv16\"", "kind = \"small_conv\"\nchannels = 3\nside = 32");
        let config = parse(&text, "cifar.toml").expect("valid");
        let folder = tempfile::tempdir().expect("a folder");
        let load = || config.source().load(Some(folder.path()), &config.form(), nae_data::own::Corrupt::Skip);
        assert!(load().expect_err("no file").to_string().contains("data_batch_1.bin"));
        for name in nae_data::cifar::TRAIN.iter().chain(&nae_data::cifar::TEST) {
            std::fs::write(folder.path().join(name), [7; 3073]).expect("writes");
        }
        let loaded = load().expect("valid");
        assert_eq!((loaded.train.len(), loaded.test.map_or(0, |test| test.len())), (5, 1));
        assert_eq!(loaded.train.shape(), config.architecture().image());
    }
}
