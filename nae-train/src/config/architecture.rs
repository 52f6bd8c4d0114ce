//! `[architecture]` of a preset: a family and its sizes.

use nae_core::Shape;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::raw::require;
use crate::arch::conv28::conv28;
use crate::arch::conv32::conv32;
use crate::arch::conv32_big::conv32_big;
use crate::arch::conv64::{Conv64Widths, conv64};
use crate::arch::dense::{DenseOutput, dense};
use crate::arch::fc_res::fc_res2;
use crate::arch::igebm::igebm32;
use crate::arch::small_conv::{SIDES, small_conv, small_conv16};
use crate::arch::{AutoencoderSpec, LatentSpace};

/// The network: `kind` selects the family, the other keys are its sizes. Sizes that are left out are the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ArchitectureConfig {
    /// [`small_conv16`] with one channel.
    SmallConv16 {
        /// The channels of the first layer.
        width: usize,
        /// The latent dimension D_z.
        latent_dim: usize,
        /// The geometry of the latent space.
        latent_space: LatentSpace,
    },
    /// [`small_conv`](small_conv()).
    SmallConv {
        /// The channels of an image.
        channels: usize,
        /// The side of an image, in pixels.
        side: usize,
        /// The channels of the first layer.
        width: usize,
        /// The latent dimension D_z.
        latent_dim: usize,
        /// The geometry of the latent space.
        latent_space: LatentSpace,
    },
    /// FCRes2: [`fc_res2`].
    #[serde(rename = "fcres2")]
    FcRes2 {
        /// The number of blocks in the encoder, and in the decoder.
        #[serde(default = "paper::fcres2_blocks")]
        blocks: usize,
        /// The width between blocks.
        #[serde(default = "paper::fcres2_width")]
        width: usize,
        /// The width within blocks.
        #[serde(default = "paper::fcres2_hidden")]
        hidden: usize,
        /// The latent dimension D_z.
        latent_dim: usize,
        /// The geometry of the latent space.
        latent_space: LatentSpace,
    },
    /// Conv28: [`conv28`](conv28()).
    Conv28 {
        /// The channels of the first layer.
        #[serde(default = "paper::conv_width")]
        width: usize,
        /// The latent dimension D_z.
        latent_dim: usize,
        /// The geometry of the latent space.
        latent_space: LatentSpace,
    },
    /// Conv32: [`conv32`](conv32()).
    Conv32 {
        /// The channels of the first layer.
        #[serde(default = "paper::conv_width")]
        width: usize,
        /// The latent dimension D_z.
        latent_dim: usize,
        /// The geometry of the latent space.
        latent_space: LatentSpace,
    },
    /// Conv32Big: [`conv32_big`](conv32_big()).
    Conv32Big {
        /// The channels of the first layer.
        #[serde(default = "paper::big_width")]
        width: usize,
        /// The groups of the decoder's group normalization.
        #[serde(default = "paper::groups")]
        groups: usize,
        /// The latent dimension D_z.
        latent_dim: usize,
        /// The geometry of the latent space.
        latent_space: LatentSpace,
    },
    /// Conv64: [`conv64`](conv64()).
    Conv64 {
        /// The channels of the encoder's first layer.
        #[serde(default = "paper::conv64_encoder")]
        encoder_width: usize,
        /// The channels of the decoder's last hidden layer.
        #[serde(default = "paper::conv64_decoder")]
        decoder_width: usize,
        /// The groups of the group normalization.
        #[serde(default = "paper::groups")]
        groups: usize,
        /// The latent dimension D_z.
        latent_dim: usize,
        /// The geometry of the latent space.
        latent_space: LatentSpace,
    },
    /// The encoder and decoder for CIFAR-10 in the authors' code: [`igebm32`].
    Igebm32 {
        /// The channels of the first layer.
        #[serde(default = "paper::big_width")]
        width: usize,
        /// The groups of the decoder's last group normalization.
        #[serde(default = "paper::igebm_groups")]
        groups: usize,
        /// The latent dimension D_z.
        latent_dim: usize,
        /// The geometry of the latent space.
        latent_space: LatentSpace,
    },
    /// Dense layers: [`dense`](dense()).
    Dense {
        /// The channels, rows and columns of an image; a vector of D values is `[D, 1, 1]`.
        image: [usize; 3],
        /// The widths of the hidden layers from the image to the latent vector.
        widths: Vec<usize>,
        /// The range of the output.
        #[serde(default)]
        output: DenseOutput,
        /// The latent dimension D_z.
        latent_dim: usize,
        /// The geometry of the latent space.
        latent_space: LatentSpace,
    },
}

/// The sizes in the paper's table, and those of the authors' code for architectures that only the code has.
mod paper {
    use crate::arch::conv64::Conv64Widths;

    pub(super) fn fcres2_blocks() -> usize {
        5
    }
    pub(super) fn fcres2_width() -> usize {
        256
    }
    pub(super) fn fcres2_hidden() -> usize {
        1024
    }
    pub(super) fn conv_width() -> usize {
        32
    }
    pub(super) fn big_width() -> usize {
        128
    }
    pub(super) fn groups() -> usize {
        8
    }
    pub(super) fn igebm_groups() -> usize {
        2
    }
    pub(super) fn conv64_encoder() -> usize {
        Conv64Widths::PAPER.encoder
    }
    pub(super) fn conv64_decoder() -> usize {
        Conv64Widths::PAPER.decoder
    }
}

impl ArchitectureConfig {
    /// The network's layers.
    ///
    /// # Errors
    /// [`ConfigError`] with the first key whose value cannot be used.
    pub fn spec(&self) -> Result<AutoencoderSpec, ConfigError> {
        self.check()?;
        let spec = match *self {
            Self::SmallConv16 { width, latent_dim, latent_space } => small_conv16(1, width, latent_dim, latent_space),
            Self::SmallConv { channels, side, width, latent_dim, latent_space } => {
                small_conv(channels, side, width, latent_dim, latent_space)
            }
            Self::FcRes2 { blocks, width, hidden, latent_dim, latent_space } => {
                fc_res2(blocks, width, hidden, latent_dim, latent_space)
            }
            Self::Conv28 { width, latent_dim, latent_space } => conv28(width, latent_dim, latent_space),
            Self::Conv32 { width, latent_dim, latent_space } => conv32(width, latent_dim, latent_space),
            Self::Conv32Big { width, groups, latent_dim, latent_space } => {
                conv32_big(width, groups, latent_dim, latent_space)
            }
            Self::Conv64 { encoder_width, decoder_width, groups, latent_dim, latent_space } => {
                let widths = Conv64Widths { encoder: encoder_width, decoder: decoder_width };
                conv64(widths, groups, latent_dim, latent_space)
            }
            Self::Igebm32 { width, groups, latent_dim, latent_space } => {
                igebm32(width, groups, latent_dim, latent_space)
            }
            Self::Dense { image: [c, h, w], ref widths, output, latent_dim, latent_space } => {
                dense(Shape::new(c, h, w), widths, latent_dim, output, latent_space)
            }
        };
        let spec = spec.map_err(|error| ConfigError {
            key: "architecture",
            expected: "layers that fit together",
            found: error.to_string(),
        })?;
        require("architecture.latent_dim", spec.latent_dim(), "1 to 4096", |d| *d <= 4096)?;
        Ok(spec)
    }

    /// A mutable reference to D_z.
    pub fn latent_dim_mut(&mut self) -> &mut usize {
        match self {
            Self::SmallConv16 { latent_dim, .. }
            | Self::SmallConv { latent_dim, .. }
            | Self::FcRes2 { latent_dim, .. }
            | Self::Conv28 { latent_dim, .. }
            | Self::Conv32 { latent_dim, .. }
            | Self::Conv32Big { latent_dim, .. }
            | Self::Conv64 { latent_dim, .. }
            | Self::Igebm32 { latent_dim, .. }
            | Self::Dense { latent_dim, .. } => latent_dim,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let size = |key, value: usize| require(key, value, "1 to 8192", |v| (1..=8192).contains(v));
        match self {
            Self::SmallConv16 { width, .. } | Self::Conv28 { width, .. } | Self::Conv32 { width, .. } => {
                require("architecture.width", *width, "1 to 1024", |w| (1..=1024).contains(w))
            }
            Self::SmallConv { channels, side, width, .. } => {
                require("architecture.side", *side, "12 to 82", |s| SIDES.contains(s))?;
                require("architecture.channels", *channels, "1 to 1024", |c| (1..=1024).contains(c))?;
                require("architecture.width", *width, "1 to 1024", |w| (1..=1024).contains(w))
            }
            Self::FcRes2 { blocks, width, hidden, .. } => {
                require("architecture.blocks", *blocks, "0 to 100", |b| *b <= 100)?;
                size("architecture.width", *width)?;
                size("architecture.hidden", *hidden)
            }
            Self::Conv32Big { width, groups, .. } | Self::Igebm32 { width, groups, .. } => {
                require("architecture.width", *width, "1 to 1024", |w| (1..=1024).contains(w))?;
                require("architecture.groups", *groups, "a divisor of the width", |g| divides(*g, *width))
            }
            Self::Conv64 { encoder_width, decoder_width, groups, .. } => {
                require("architecture.encoder_width", *encoder_width, "1 to 1024", |w| (1..=1024).contains(w))?;
                require("architecture.decoder_width", *decoder_width, "1 to 1024", |w| (1..=1024).contains(w))?;
                let both = |g: &usize| divides(*g, *encoder_width) && divides(*g, *decoder_width);
                require("architecture.groups", *groups, "a divisor of both widths", both)
            }
            Self::Dense { image, widths, .. } => {
                let values = image.iter().try_fold(1usize, |n, &side| n.checked_mul(side)).unwrap_or(usize::MAX);
                require("architecture.image", values, "three extents with a product of 1 to 1048576", |n| {
                    (1..=1 << 20).contains(n)
                })?;
                require("architecture.widths", widths.len(), "at most 100 widths", |n| *n <= 100)?;
                widths.iter().try_for_each(|&width| size("architecture.widths", width))
            }
        }
    }
}

fn divides(divisor: usize, number: usize) -> bool {
    divisor > 0 && number.is_multiple_of(divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ArchitectureConfig, toml::de::Error> {
        toml::from_str(text)
    }

    fn spec(text: &str) -> AutoencoderSpec {
        let config = parse(text).expect(text);
        assert_eq!(parse(&toml::to_string(&config).expect("serializes")).expect("parses"), config);
        let spec = config.spec().expect(text);
        let mut other = config;
        *other.latent_dim_mut() += 1;
        assert_eq!(other.spec().expect(text).latent_dim(), spec.latent_dim() + 1);
        spec
    }

    #[test]
    fn every_kind_is_read_and_sizes_left_out_are_the_papers() {
        let sphere = LatentSpace::Sphere;
        for (text, expected) in [
            ("kind = 'small_conv16'\nwidth = 8", small_conv16(1, 8, 8, sphere)),
            ("kind = 'small_conv'\nchannels = 3\nside = 32\nwidth = 4", small_conv(3, 32, 4, 8, sphere)),
            ("kind = 'fcres2'", fc_res2(5, 256, 1024, 8, sphere)),
            ("kind = 'conv28'", conv28(32, 8, sphere)),
            ("kind = 'conv32'\nwidth = 4", conv32(4, 8, sphere)),
            ("kind = 'conv32_big'", conv32_big(128, 8, 8, sphere)),
            ("kind = 'conv64'", conv64(Conv64Widths::PAPER, 8, 8, sphere)),
            ("kind = 'conv64'\nencoder_width = 128", conv64(Conv64Widths::CODE, 8, 8, sphere)),
            ("kind = 'igebm32'", igebm32(128, 2, 8, sphere)),
            (
                "kind = 'dense'\nimage = [640, 1, 1]\nwidths = [128, 64]",
                dense(Shape::vector(640), &[128, 64], 8, DenseOutput::Linear, sphere),
            ),
        ] {
            let text = format!("{text}\nlatent_dim = 8\nlatent_space = 'sphere'");
            assert_eq!(spec(&text), expected.expect("a valid architecture"), "{text}");
        }
    }

    #[test]
    fn errors_name_the_key() {
        let rest = "latent_dim = 8\nlatent_space = 'sphere'";
        for (text, key) in
            [("kind = 'conv29'", "conv29"), ("kind = 'conv28'\nhidden = 3", "hidden"), ("width = 3", "kind")]
        {
            let error = parse(&format!("{text}\n{rest}")).expect_err(text).to_string();
            assert!(error.contains(key), "{error}");
        }
        for (text, key) in [
            ("kind = 'conv28'\nwidth = 0", "architecture.width"),
            ("kind = 'conv32_big'\ngroups = 7", "architecture.groups"),
            ("kind = 'conv64'\nencoder_width = 12", "architecture.groups"),
            ("kind = 'small_conv'\nchannels = 1\nside = 83\nwidth = 8", "architecture.side"),
            ("kind = 'dense'\nimage = [0, 1, 1]\nwidths = [3]", "architecture.image"),
            ("kind = 'dense'\nimage = [2, 1, 1]\nwidths = [3, 0]", "architecture.widths"),
        ] {
            let error = parse(&format!("{text}\n{rest}")).expect(text).spec().expect_err(text).to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
