//! The blocks of the paper's architectures (appendix, "Network Architecture"), as layers.

use nae_core::Shape;

use super::spec::{LayerSpec, conv_transpose2d, conv2d, fc};

/// The LReLU of the paper.
pub const LEAKY_RELU: LayerSpec = LayerSpec::LeakyRelu { slope: 0.2 };

/// FCRes(width, hidden, width): x + F₂(ReLU(F₁(ReLU(x)))), where F₁ and F₂ are dense.
pub fn fc_res(width: usize, hidden: usize) -> LayerSpec {
    LayerSpec::Residual { body: vec![LayerSpec::Relu, fc(hidden), LayerSpec::Relu, fc(width)], skip: vec![] }
}

/// Res(inp, hidden, out): x + F₂(LReLU(F₁(LReLU(x)))), where F₁ and F₂ are 3×3 convolutions with padding 1.
///
/// If the numbers of input and output channels differ, x first passes through a 1×1 convolution without bias, since
/// otherwise the paper's Res(128, 256, 256) could not be added.
pub fn res(inp: usize, hidden: usize, out: usize) -> LayerSpec {
    let body = vec![LEAKY_RELU, conv2d(hidden, 3, 1, 1), LEAKY_RELU, conv2d(out, 3, 1, 1)];
    LayerSpec::Residual { body, skip: if inp == out { vec![] } else { vec![projection(out)] } }
}

/// ResUp(width, width, width, factor): U(x) + F₂(ReLU(F₁(U(ReLU(x))))), where U is the enlargement by repetition, with
/// group normalization before each ReLU if `groups` is given.
pub fn res_up(width: usize, factor: usize, groups: Option<usize>) -> LayerSpec {
    let enlarge = LayerSpec::Nearest { factor };
    let mut body = activation(groups);
    body.extend([enlarge.clone(), conv2d(width, 3, 1, 1)]);
    body.extend(activation(groups));
    body.push(conv2d(width, 3, 1, 1));
    LayerSpec::Residual { body, skip: vec![enlarge] }
}

/// ResAtt(width, hidden, width): x + R₁(x) ⊙ sigmoid(R₂(x)), where R₁ and R₂ are Res(width, hidden, width).
pub fn res_att(width: usize, hidden: usize) -> LayerSpec {
    let gated = LayerSpec::Gated { body: vec![res(width, hidden, width)], gate: vec![res(width, hidden, width)] };
    LayerSpec::Residual { body: vec![gated], skip: vec![] }
}

/// The residual generator of Miyato et al. (2018), from a latent to a colour image of 32×32 pixels. It has group
/// normalization in place of batch normalization, with `block_groups` groups in the blocks and `last_groups` after
/// them.
pub fn generator32(width: usize, block_groups: usize, last_groups: usize) -> Vec<LayerSpec> {
    let mut layers = vec![conv_transpose2d(width, 4, 1, 0)];
    layers.extend(std::iter::repeat_n(res_up(width, 2, Some(block_groups)), 3));
    layers.extend(activation(Some(last_groups)));
    layers.extend([conv2d(3, 3, 1, 1), LayerSpec::Sigmoid]);
    layers
}

/// ReLU, with group normalization before it if `groups` is given.
pub fn activation(groups: Option<usize>) -> Vec<LayerSpec> {
    groups.map(|groups| LayerSpec::GroupNorm { groups }).into_iter().chain([LayerSpec::Relu]).collect()
}

/// A 1×1 convolution without bias, which converts a short path to `channels`.
pub fn projection(channels: usize) -> LayerSpec {
    LayerSpec::Conv { channels, kernel: 1, stride: 1, padding: 0, bias: false, spectral_norm: false }
}

/// The shape of an image with three channels and `side` × `side` pixels.
pub(super) fn color(side: usize) -> Shape {
    Shape::new(3, side, side)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_parameters_as_in_the_paper() {
        let vector = Shape::vector(256);
        let block = fc_res(256, 1024);
        assert_eq!(block.output(vector), Some(vector));
        assert_eq!(block.parameters(vector), (256 * 1024 + 1024) + (1024 * 256 + 256));

        let maps = Shape::new(128, 16, 16);
        let block = res(128, 128, 128);
        assert_eq!(block.output(maps), Some(maps));
        assert_eq!(block.parameters(maps), 2 * (128 * 128 * 9 + 128));
        let block = res(128, 256, 256);
        assert_eq!(block.output(maps), Some(Shape::new(256, 16, 16)));
        assert_eq!(block.parameters(maps), (128 * 256 * 9 + 256) + (256 * 256 * 9 + 256) + 128 * 256);

        let block = res_up(128, 2, Some(8));
        assert_eq!(block.output(maps), Some(Shape::new(128, 32, 32)));
        assert_eq!(block.parameters(maps), 2 * (128 * 128 * 9 + 128) + 2 * (2 * 128));
        assert_eq!(res_up(128, 2, None).parameters(maps), 2 * (128 * 128 * 9 + 128));

        let latent = Shape::vector(32);
        let block = res_att(32, 1024);
        assert_eq!(block.output(latent), Some(latent));
        assert_eq!(block.parameters(latent), 2 * ((32 * 1024 * 9 + 1024) + (1024 * 32 * 9 + 32)));
    }
}
