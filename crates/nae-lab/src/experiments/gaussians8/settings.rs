//! The settings of the experiment, read strictly and checked once.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::cell::in_file_names;
use crate::density::Target;
use crate::experiments::Scale;
use nae_train::arch::fc_res2;
use nae_train::arch::{AutoencoderSpec, LatentSpace};
use nae_train::config::Regularization;
use nae_train::config::Variational;
use nae_train::config::text::{TextError, read};
use nae_train::config::{ConfigError, Pretraining, Training, sampler};
use nae_train::sample::{Langevin, Precision, SamplerConfig, Start};

/// The paper's settings, as TOML.
pub const PAPER: &str = include_str!("../../../experiments/gaussians8.toml");

/// Invalid settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The text is not a settings file, or a value is invalid.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The settings do not contain this scale.
    #[error("the settings have no `scales.{0}`")]
    NoScale(&'static str),
}

/// The content of a settings file. Unknown keys are refused.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    /// The density to be learned.
    #[serde(default)]
    density: Target,
    batch_size: usize,
    temperature: f32,
    negative_energy: f32,
    latents: Vec<Latent>,
    methods: Vec<MethodSettings>,
    scales: BTreeMap<Scale, Size>,
}

/// A latent space.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latent {
    /// The latent dimension D_z.
    pub dim: usize,
    /// Its geometry.
    pub space: LatentSpace,
    /// The weight of the mean ‖z‖².
    #[serde(default)]
    pub norm: f32,
}

/// A method: how negative samples are drawn.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodSettings {
    /// The name in the table.
    pub name: String,
    /// The weight of the data's mean squared energy.
    #[serde(default)]
    pub positive_energy: f32,
    /// The chains; `None` for a plain autoencoder.
    pub sampler: Option<Chains>,
    /// Whether it is a variational autoencoder, which has no chains either. The Gaussian around its decoder's output
    /// starts with the variance that corresponds to `temperature`, and learns it at the temperature's learning rate;
    /// its latents are in ℝ^D.
    #[serde(default)]
    pub variational: bool,
}

/// The `[sampler]` of a preset without the temperature, which is the same for all methods.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chains {
    /// The start of the chains.
    pub start: Start,
    /// The chain in the latent space; `None` without one.
    #[serde(default)]
    pub latent_chain: Option<Langevin>,
    /// The chain in the plane.
    pub visible_chain: Langevin,
}

/// The sizes at one scale.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// The number of parameter updates.
    pub updates: usize,
    /// Adam's learning rate for the weights.
    pub learning_rate: f64,
    /// Adam's learning rate for log T.
    pub temperature_learning_rate: f64,
    /// The number of latents from the prior over which a variational autoencoder's density is averaged.
    pub marginal_latents: usize,
    /// The size of FCRes2.
    pub network: NetworkSize,
}

/// The size of FCRes2.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSize {
    /// The number of residual blocks in the encoder, and in the decoder.
    pub blocks: usize,
    /// The width between blocks.
    pub width: usize,
    /// The width within blocks.
    pub hidden: usize,
}

/// Checked settings.
#[derive(Clone, Debug)]
pub struct DensitySettings {
    raw: Raw,
    text: String,
    origin: String,
}

impl DensitySettings {
    /// Parses settings from `text`; `origin` is used in errors.
    ///
    /// # Errors
    /// [`TextError`] if the text is not a settings file or a value is invalid.
    pub fn parse(text: &str, origin: &str) -> Result<Self, TextError> {
        let raw: Raw = read(text, origin)?;
        check(&raw).map_err(TextError::value(origin))?;
        Ok(Self { raw, text: text.to_owned(), origin: origin.to_owned() })
    }

    /// The text from which they were read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The density to be learned; the default is the paper's eight Gaussians.
    pub fn target(&self) -> Target {
        self.raw.density
    }

    /// The number of points per update.
    pub fn batch_size(&self) -> usize {
        self.raw.batch_size
    }

    /// The latent spaces, each a column of the experiment.
    pub fn latents(&self) -> &[Latent] {
        &self.raw.latents
    }

    /// The methods, each a row.
    pub fn methods(&self) -> &[MethodSettings] {
        &self.raw.methods
    }

    /// The sizes at `scale`.
    ///
    /// # Errors
    /// [`SettingsError::NoScale`] if the settings do not contain it.
    pub fn size(&self, scale: Scale) -> Result<Size, SettingsError> {
        self.raw.scales.get(&scale).copied().ok_or(SettingsError::NoScale(scale.name()))
    }

    /// The chains of `method`; `None` for a plain autoencoder.
    pub fn sampler(&self, method: &MethodSettings) -> Option<SamplerConfig> {
        method.sampler.map(|chains| with_temperature(chains, self.raw.temperature))
    }

    /// The training of `method` with `latent`.
    pub fn training(&self, method: &MethodSettings, latent: Latent, size: Size) -> Training {
        Training {
            updates: size.updates,
            batch_size: self.raw.batch_size,
            learning_rate: size.learning_rate,
            final_learning_rate: None,
            encoder_learning_rate: None,
            decoder_learning_rate: None,
            temperature_learning_rate: Some(size.temperature_learning_rate),
            fixed_decoder: false,
            fixed_manifold: false,
            average: None,
            negative_bound: None,
            positive_bound: None,
            reference_energy: None,
            regularization: Regularization {
                negative_energy: self.raw.negative_energy,
                positive_energy: method.positive_energy,
                encoder_l2: 0.0,
                decoder_l2: 0.0,
                latent_norm: latent.norm,
            },
        }
    }

    /// The settings of a variational autoencoder: T = 2σ²/D, where D = 2 in the plane.
    pub fn variational(&self) -> Variational {
        Variational { sigma: self.raw.temperature.sqrt(), learned_sigma: true, ..Variational::default() }
    }

    /// The training of the plain and of the variational autoencoder.
    pub fn plain_training(&self, size: Size) -> Pretraining {
        Pretraining::new(1, self.raw.batch_size, size.learning_rate)
    }

    /// The network.
    ///
    /// # Errors
    /// [`SettingsError::Text`] if one of its sizes is zero.
    pub fn architecture(&self, latent: Latent, size: Size) -> Result<AutoencoderSpec, SettingsError> {
        Ok(architecture(latent, size).map_err(TextError::value(&self.origin))?)
    }
}

fn architecture(latent: Latent, size: Size) -> Result<AutoencoderSpec, ConfigError> {
    let NetworkSize { blocks, width, hidden } = size.network;
    fc_res2(blocks, width, hidden, latent.dim, latent.space).map_err(|error| ConfigError {
        key: "scales.*.network",
        expected: "layers that fit together",
        found: format!("an error: {error}"),
    })
}

fn with_temperature(chains: Chains, temperature: f32) -> SamplerConfig {
    let Chains { start, latent_chain, visible_chain } = chains;
    SamplerConfig { start, latent_chain, visible_chain, temperature, precision: Precision::F32, reuse: None }
}

fn check(raw: &Raw) -> Result<(), ConfigError> {
    let require = |key, valid: bool, expected, found: String| {
        if valid { Ok(()) } else { Err(ConfigError { key, expected, found }) }
    };
    let positive = |v: f64| v.is_finite() && v > 0.0;
    require("batch_size", raw.batch_size > 0, "at least 1", raw.batch_size.to_string())?;
    require("temperature", positive(raw.temperature.into()), "above 0", raw.temperature.to_string())?;
    require("methods", !raw.methods.is_empty(), "one at least", "none".into())?;
    require("latents", !raw.latents.is_empty(), "one at least", "none".into())?;
    let weight = |v: f32| v.is_finite() && v >= 0.0;
    require("negative_energy", weight(raw.negative_energy), "at least 0", raw.negative_energy.to_string())?;
    for (index, method) in raw.methods.iter().enumerate() {
        require("methods.positive_energy", weight(method.positive_energy), "at least 0", method.name.clone())?;
        let without_negatives = method.sampler.is_none() && method.positive_energy == 0.0;
        let expected = "neither sampler nor positive_energy beside it";
        require("methods.variational", !method.variational || without_negatives, expected, method.name.clone())?;
        let file = in_file_names(&method.name);
        let twice = raw.methods[..index].iter().any(|m| in_file_names(&m.name) == file);
        let expected = "a name that differs from the others' in its letters (of either case) or digits";
        require("methods.name", !twice, expected, method.name.clone())?;
        for latent in &raw.latents {
            if let Some(chains) = method.sampler {
                sampler::check(&with_temperature(chains, raw.temperature), latent.space)?;
            }
        }
    }
    for (index, latent) in raw.latents.iter().enumerate() {
        require("latents.dim", latent.dim > 0, "at least 1", latent.dim.to_string())?;
        require("latents.norm", weight(latent.norm), "at least 0", latent.norm.to_string())?;
        let twice = raw.latents[..index].iter().any(|l| l.dim == latent.dim);
        require("latents.dim", !twice, "given once", latent.dim.to_string())?;
        for size in raw.scales.values() {
            architecture(*latent, *size)?;
        }
    }
    for size in raw.scales.values() {
        require("scales.*.updates", size.updates > 0, "at least 1", size.updates.to_string())?;
        let latents = size.marginal_latents;
        require(
            "scales.*.marginal_latents",
            (1..=1_000_000).contains(&latents),
            "1 to 1,000,000",
            latents.to_string(),
        )?;
        for (key, rate) in [
            ("scales.*.learning_rate", size.learning_rate),
            ("scales.*.temperature_learning_rate", size.temperature_learning_rate),
        ] {
            require(key, positive(rate), "above 0", rate.to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_settings_are_valid() {
        let settings = DensitySettings::parse(PAPER, "gaussians8.toml").expect("valid");
        let size = settings.size(Scale::Paper).expect("there");
        assert_eq!((size.updates, size.network.hidden), (2000, 1024));
        let names: Vec<&str> = settings.methods().iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["AE", "VAE", "OMI", "CD", "PCD", "PCD, 5% restart"]);
        let omi = &settings.methods()[2];
        let training = settings.training(omi, settings.latents()[1], size);
        assert!((training.temperature_learning_rate.expect("learned") - 1e-3).abs() < 1e-12);
        assert_eq!(training.regularization.latent_norm, 0.01);
        assert_eq!(settings.sampler(omi).expect("chains").temperature, 0.5);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let with = |from: &str, to: &str| {
            let text = PAPER.replacen(from, to, 1);
            assert_ne!(text, PAPER, "{from} is not in the file");
            DensitySettings::parse(&text, "my.toml").expect_err("invalid").to_string()
        };
        let message = with("batch_size = 200", "batch_size = 0");
        assert!(message.contains("my.toml") && message.contains("batch_size"), "{message}");
        let message = with("temperature_learning_rate", "temperatur_rate");
        assert!(message.contains("temperatur_rate"), "{message}");
        let message = with("name = \"CD\"", "name = \"OMI\"");
        assert!(message.contains("methods.name"), "{message}");
        // The weights of both would be in one file.
        let message = with("name = \"PCD\"", "name = \"cd\"");
        assert!(message.contains("methods.name") && message.contains("is cd;"), "{message}");
        let message = with("dim = 2", "dim = 0");
        assert!(message.contains("latents.dim") && message.contains("is 0;"), "{message}");
        for list in ["methods", "latents"] {
            let mut none: toml::Table = PAPER.parse().expect("TOML");
            none.insert(list.to_owned(), toml::Value::Array(Vec::new()));
            let message = DensitySettings::parse(&none.to_string(), "my.toml").expect_err("empty").to_string();
            assert!(message.contains(&format!("`{list}` is none; expected one at least")), "{message}");
        }
        let message = with("variational = true", "variational = true\npositive_energy = 1.0");
        assert!(message.contains("methods.variational") && message.contains("VAE"), "{message}");
        let message = with("start = \"data\"", "start = { on_manifold = {} }");
        assert!(message.contains("sampler.latent_chain"), "{message}");
    }
}
