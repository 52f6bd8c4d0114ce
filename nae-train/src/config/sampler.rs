//! Checks a preset's `[sampler]`: values, and their combinations.

use super::ConfigError;
use super::raw::{at_least_0, positive, require};
use crate::arch::LatentSpace;
use crate::sample::{Annealing, Bounds, Langevin, Leaving, ReplayConfig, SamplerConfig, Start};

/// Checks `sampler` for a model with latents in `space`.
///
/// # Errors
/// [`ConfigError`] with the first key whose value cannot be used, or cannot be combined with another.
pub fn check(sampler: &SamplerConfig, space: LatentSpace) -> Result<(), ConfigError> {
    require("sampler.temperature", sampler.temperature, "above 0", |t| positive(f64::from(*t)))?;
    check_start(sampler.start)?;
    if let Some(reuse) = sampler.reuse {
        check_buffer(reuse, ["sampler.reuse.size", "sampler.reuse.ratio"])?;
        require("sampler.reuse.ratio", reuse.ratio, "below 1: all would be the first draw's", |r| *r < 1.0)?;
    }
    match (sampler.start.is_latent(), &sampler.latent_chain) {
        (true, Some(chain)) => check_chain(chain, space, &LATENT)?,
        (true, None) => {
            return refuse("sampler.latent_chain", "a chain, for a start in the latent space", "missing");
        }
        (false, Some(_)) => {
            return refuse("sampler.latent_chain", "no latent chain, for a start among images", "there");
        }
        (false, None) => {}
    }
    check_chain(&sampler.visible_chain, LatentSpace::Euclidean, &VISIBLE)
}

fn check_start(start: Start) -> Result<(), ConfigError> {
    match start {
        Start::PerturbedData { min_scale, max_scale, recovery } => {
            require("sampler.start.perturbed_data.min_scale", min_scale, "at least 0", at_least_0)?;
            let at_least_min = |scale: &f32| at_least_0(scale) && *scale >= min_scale;
            require("sampler.start.perturbed_data.max_scale", max_scale, "at least `min_scale`", at_least_min)?;
            require("sampler.start.perturbed_data.recovery", recovery, "at least 0", at_least_0)?;
            if recovery > 0.0 && min_scale == 0.0 {
                let expected = "above 0 with `recovery`, which is divided by its square";
                return refuse("sampler.start.perturbed_data.min_scale", expected, "0");
            }
            Ok(())
        }
        Start::Persistent { restart } => {
            require("sampler.start.persistent.restart", restart, "a probability, 0 to 1", probability)
        }
        Start::OnManifold { replay_buffer: Some(buffer) } => check_buffer(
            buffer,
            ["sampler.start.on_manifold.replay_buffer.size", "sampler.start.on_manifold.replay_buffer.ratio"],
        ),
        Start::Noise { replay_buffer: Some(buffer) } => {
            check_buffer(buffer, ["sampler.start.noise.replay_buffer.size", "sampler.start.noise.replay_buffer.ratio"])
        }
        Start::OnManifold { replay_buffer: None } | Start::Noise { replay_buffer: None } | Start::Data => Ok(()),
    }
}

fn check_buffer(buffer: ReplayConfig, [size, ratio]: [&'static str; 2]) -> Result<(), ConfigError> {
    require(size, buffer.size, "at least 1", |&n| n > 0)?;
    require(ratio, buffer.ratio, "0 to 1", probability)
}

/// The keys of one chain.
struct Keys {
    step_size: &'static str,
    noise: &'static str,
    gradient_clip: &'static str,
    annealing: &'static str,
    bounds: &'static str,
    metropolis: &'static str,
}

macro_rules! keys {
    ($chain:literal) => {
        Keys {
            step_size: concat!("sampler.", $chain, ".step_size"),
            noise: concat!("sampler.", $chain, ".noise"),
            gradient_clip: concat!("sampler.", $chain, ".gradient_clip"),
            annealing: concat!("sampler.", $chain, ".annealing"),
            bounds: concat!("sampler.", $chain, ".bounds"),
            metropolis: concat!("sampler.", $chain, ".metropolis"),
        }
    };
}

const LATENT: Keys = keys!("latent_chain");
const VISIBLE: Keys = keys!("visible_chain");

fn check_chain(chain: &Langevin, space: LatentSpace, keys: &Keys) -> Result<(), ConfigError> {
    require(keys.step_size, chain.step_size, "above 0", |s| positive(f64::from(*s)))?;
    require(keys.noise, chain.noise, "at least 0", at_least_0)?;
    if let Some(clip) = chain.gradient_clip {
        require(keys.gradient_clip, clip.limit, "above 0", |c| positive(f64::from(*c)))?;
    }
    if chain.normalize && chain.gradient_clip.is_some() {
        return refuse(keys.gradient_clip, "no clip with `normalize`: the gradient has the length 1", "there");
    }
    if let Some(Bounds { min, max, .. }) = chain.bounds {
        if !(min.is_finite() && max.is_finite() && min < max) {
            return refuse(keys.bounds, "min below max, both finite", &format!("min {min}, max {max}"));
        }
        if space == LatentSpace::Sphere {
            return refuse(keys.bounds, "no box on the sphere", "there");
        }
    }
    if chain.metropolis.is_none() {
        return Ok(());
    }
    // `sample::metropolis` explains the conditions of detailed balance.
    require(keys.noise, chain.noise, "above 0 with `metropolis`", |s| positive(f64::from(*s)))?;
    let annealing = match chain.annealing {
        Annealing::None => None,
        Annealing::Harmonic => Some("\"harmonic\""),
        Annealing::HarmonicDelayed => Some("\"harmonic_delayed\""),
    };
    if let Some(found) = annealing {
        return refuse(keys.annealing, "\"none\" with `metropolis`: drift without noise is hardly ever taken", found);
    }
    if chain.bounds.is_some_and(|bounds| bounds.leaving == Leaving::Clamp) {
        return refuse(keys.bounds, "leaving = \"reject\" with `metropolis`: clamping has no density", "\"clamp\"");
    }
    if space == LatentSpace::Sphere {
        return refuse(keys.metropolis, "no correction on the sphere: the projected step has no such density", "there");
    }
    Ok(())
}

fn probability(value: &f64) -> bool {
    (0.0..=1.0).contains(value)
}

fn refuse(key: &'static str, expected: &'static str, found: &str) -> Result<(), ConfigError> {
    Err(ConfigError { key, expected, found: found.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Precision;

    const LATENT_CHAIN: &str = "latent_chain = { steps = 10, noise = 0.1 }";
    const VISIBLE_CHAIN: &str = "visible_chain = { steps = 30, noise = 0.1 }";

    fn read(start: &str, chains: &[&str], space: LatentSpace) -> Result<(), String> {
        let text = format!("start = {start}\ntemperature = 0.5\n{}", chains.join("\n"));
        let sampler: SamplerConfig = toml::from_str(&text).map_err(|error| error.to_string())?;
        let again: SamplerConfig = toml::from_str(&toml::to_string(&sampler).expect("serializes")).expect("parses");
        assert_eq!(sampler, again);
        check(&sampler, space).map_err(|error| error.to_string())
    }

    #[test]
    fn every_start_is_chosen_in_the_preset() {
        for start in ["{ on_manifold = {} }", "{ on_manifold = { replay_buffer = { size = 10000, ratio = 0.95 } } }"] {
            assert_eq!(read(start, &[LATENT_CHAIN, VISIBLE_CHAIN], LatentSpace::Sphere), Ok(()), "{start}");
        }
        for scales in [
            "max_scale = 0.3",
            "min_scale = 0.05, max_scale = 0.3",
            "min_scale = 0.3, max_scale = 0.3, recovery = 1e-4",
        ] {
            let start = format!("{{ perturbed_data = {{ {scales} }} }}");
            assert_eq!(read(&start, &[LATENT_CHAIN, VISIBLE_CHAIN], LatentSpace::Sphere), Ok(()), "{start}");
        }
        for start in [
            "\"data\"",
            "{ persistent = {} }",
            "{ persistent = { restart = 0.05 } }",
            "{ noise = {} }",
            "{ noise = { replay_buffer = { size = 10000, ratio = 0.95 } } }",
        ] {
            assert_eq!(read(start, &[VISIBLE_CHAIN], LatentSpace::Euclidean), Ok(()), "{start}");
        }
    }

    #[test]
    fn the_papers_two_dimensional_chain_is_valid() {
        let visible = "visible_chain = { steps = 30, step_size = 0.005, noise = 0.1, metropolis = \"exact\", \
                       bounds = { min = -5.0, max = 5.0, leaving = \"reject\" } }";
        assert_eq!(read("{ on_manifold = {} }", &[LATENT_CHAIN, visible], LatentSpace::Euclidean), Ok(()));
    }

    #[test]
    fn precision_is_f32_where_nothing_is_said() {
        let text = |rest: &str| format!("start = \"data\"\ntemperature = 1.0\n{rest}\n{VISIBLE_CHAIN}");
        let precision = |rest: &str| toml::from_str::<SamplerConfig>(&text(rest)).map(|sampler| sampler.precision);
        assert_eq!(precision(""), Ok(Precision::F32));
        assert_eq!(precision("precision = \"f16\""), Ok(Precision::F16));
        assert_eq!(precision("precision = \"bf16\""), Ok(Precision::Bf16));
        assert!(precision("precision = \"f8\"").expect_err("no such").to_string().contains("f8"));
        // Presets without this key, and their digests, stay unchanged.
        let plain: SamplerConfig = toml::from_str(&text("")).expect("valid");
        assert!(!toml::to_string(&plain).expect("serializes").contains("precision"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_key() {
        let (sphere, plane) = (LatentSpace::Sphere, LatentSpace::Euclidean);
        let visible = |rest: &str| format!("visible_chain = {{ steps = 30, noise = 0.1, {rest} }}");
        let latent = |rest: &str| format!("latent_chain = {{ steps = 30, noise = 0.1, {rest} }}");
        let data = "\"data\"";
        let manifold = "{ on_manifold = {} }";
        let cases: &[(&str, &[&str], LatentSpace, &[&str])] = &[
            (manifold, &[VISIBLE_CHAIN], sphere, &["sampler.latent_chain", "missing"]),
            (data, &[LATENT_CHAIN, VISIBLE_CHAIN], sphere, &["sampler.latent_chain", "among images"]),
            (
                "{ persistent = { restart = 1.5 } }",
                &[VISIBLE_CHAIN],
                sphere,
                &["sampler.start.persistent.restart", "1.5"],
            ),
            ("{ persistent = { restrt = 0.5 } }", &[VISIBLE_CHAIN], sphere, &["restrt"]),
            ("\"date\"", &[VISIBLE_CHAIN], sphere, &["date"]),
            (
                "{ noise = { replay_buffer = { size = 0, ratio = 0.95 } } }",
                &[VISIBLE_CHAIN],
                sphere,
                &["sampler.start.noise.replay_buffer.size"],
            ),
            (
                data,
                &[&visible("metropolis = \"exact\", annealing = \"harmonic\"")],
                plane,
                &["sampler.visible_chain.annealing", "\"harmonic\""],
            ),
            (
                data,
                &[&visible("metropolis = \"exact\", bounds = { min = 0.0, max = 1.0, leaving = \"clamp\" }")],
                plane,
                &["sampler.visible_chain.bounds", "reject"],
            ),
            (
                data,
                &[&visible("bounds = { min = 1.0, max = 0.0, leaving = \"clamp\" }")],
                plane,
                &["sampler.visible_chain.bounds", "min 1, max 0"],
            ),
            (
                data,
                &["visible_chain = { steps = 30, step_size = 0.1, noise = 0.0, metropolis = \"code\" }"],
                plane,
                &["sampler.visible_chain.noise"],
            ),
            (
                manifold,
                &[&latent("metropolis = \"exact\""), VISIBLE_CHAIN],
                sphere,
                &["sampler.latent_chain.metropolis", "sphere"],
            ),
            (
                manifold,
                &[&latent("bounds = { min = 0.0, max = 1.0, leaving = \"clamp\" }"), VISIBLE_CHAIN],
                sphere,
                &["sampler.latent_chain.bounds", "sphere"],
            ),
            (
                "{ perturbed_data = { min_scale = 0.2, max_scale = 0.1 } }",
                &[LATENT_CHAIN, VISIBLE_CHAIN],
                sphere,
                &["sampler.start.perturbed_data.max_scale", "0.1"],
            ),
            (
                "{ perturbed_data = { max_scale = 0.1, recovery = 1.0 } }",
                &[LATENT_CHAIN, VISIBLE_CHAIN],
                sphere,
                &["sampler.start.perturbed_data.min_scale", "above 0 with `recovery`"],
            ),
            (
                "{ perturbed_data = { min_scale = 0.1, max_scale = 0.1, recovery = -1.0 } }",
                &[LATENT_CHAIN, VISIBLE_CHAIN],
                sphere,
                &["sampler.start.perturbed_data.recovery", "-1"],
            ),
            (
                data,
                &[&visible("gradient_clip = 0.01, normalize = true")],
                plane,
                &["sampler.visible_chain.gradient_clip", "normalize"],
            ),
            (data, &[&visible("gradient_clip = -0.01")], plane, &["sampler.visible_chain.gradient_clip", "-0.01"]),
        ];
        for (start, chains, space, named) in cases {
            let message = read(start, chains, *space).expect_err(start);
            assert!(named.iter().all(|name| message.contains(name)), "{message} should name {named:?}");
        }
    }
}
