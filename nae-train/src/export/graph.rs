//! The network as an ONNX graph: each layer of [`arch`](crate::arch) as its operator.

use burn::module::Param;
use burn::nn::PaddingConfig2d;
use burn::tensor::Tensor;
use nae_onnx::autoencoder::{IMAGE, LATENT, RECONSTRUCTION, add_outputs};
use nae_onnx::builder::{BuildError, Conv2d, ConvTranspose2d, Dim, Gemm, GraphBuilder, GroupNorm, Pool2d, Value};
use nae_onnx::metadata::ModelMetadata;

use crate::arch::graph::{floats, values};
use crate::arch::layer::{Gated, Layer, Residual, Sequential};
use crate::arch::{Autoencoder, AutoencoderSpec, LatentSpace};

/// The whole model: `image` in; `reconstruction`, `energy` and `latent` out.
///
/// # Errors
/// [`BuildError`] where a weight is not finite.
pub fn autoencoder(
    model: &Autoencoder,
    spec: &AutoencoderSpec,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("autoencoder");
    metadata.add_to(&mut graph);
    let image = image_input(&mut graph, spec)?;
    let latent = encode(&mut graph, image, model)?;
    let reconstruction = decode(&mut graph, latent, model)?;
    add_outputs(&mut graph, image, reconstruction, latent, spec.energy())?;
    graph.finish_bytes()
}

pub(super) fn encoder(model: &Autoencoder, spec: &AutoencoderSpec) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("encoder");
    let image = image_input(&mut graph, spec)?;
    let latent = encode(&mut graph, image, model)?;
    let flat = if is_vector(&graph, latent) { latent } else { graph.flatten("latent.flat", latent)? };
    graph.output(LATENT, flat)?;
    graph.finish_bytes()
}

pub(super) fn decoder(model: &Autoencoder, spec: &AutoencoderSpec) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("decoder");
    let dim = spec.latent_dim();
    let flat = graph.input(LATENT, &[Dim::Batch, Dim::Fixed(dim)])?;
    let latent = graph.reshape("latent.image", flat, &[dim, 1, 1])?;
    let reconstruction = decode(&mut graph, latent, model)?;
    graph.output(RECONSTRUCTION, reconstruction)?;
    graph.finish_bytes()
}

fn new_graph(name: &str) -> GraphBuilder {
    let mut graph = GraphBuilder::new(name);
    graph.producer(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    graph
}

fn image_input(graph: &mut GraphBuilder, spec: &AutoencoderSpec) -> Result<Value, BuildError> {
    let image = spec.image();
    graph.image_input(IMAGE, [image.channels, image.height, image.width])
}

fn encode(graph: &mut GraphBuilder, image: Value, model: &Autoencoder) -> Result<Value, BuildError> {
    let raw = layers(graph, "encoder", image, &model.encoder)?;
    match model.latent_space() {
        LatentSpace::Sphere => graph.l2_normalize("encoder.sphere", raw),
        LatentSpace::Euclidean => Ok(raw),
    }
}

fn decode(graph: &mut GraphBuilder, latent: Value, model: &Autoencoder) -> Result<Value, BuildError> {
    let reconstruction = layers(graph, "decoder", latent, &model.decoder)?;
    maps(graph, "decoder.maps", reconstruction)
}

fn layers(graph: &mut GraphBuilder, prefix: &str, input: Value, chain: &Sequential) -> Result<Value, BuildError> {
    chain
        .layers()
        .iter()
        .enumerate()
        .try_fold(input, |x, (index, layer)| operator(graph, &format!("{prefix}.{index}"), x, layer))
}

fn operator(graph: &mut GraphBuilder, name: &str, x: Value, layer: &Layer) -> Result<Value, BuildError> {
    // Dense layers leave `[N, D]`, where the network has `[N, D, 1, 1]`, and what works on single values keeps it: a
    // chain of dense layers is a chain of `Gemm`, and nothing is reshaped that need not be.
    let x = match layer {
        Layer::Dense(_) | Layer::Reshape(_) | Layer::Pointwise(_) | Layer::Residual(_) | Layer::Gated(_) => x,
        _ => maps(graph, &format!("{name}.maps"), x)?,
    };
    match layer {
        Layer::Conv(conv) => convolution(graph, name, x, conv, &floats(&conv.weight)),
        Layer::SpectralConv(spectral) => {
            // The division by σ is folded into the weight.
            convolution(graph, name, x, &spectral.conv, &values(spectral.weight()))
        }
        Layer::ConvTranspose(conv) => {
            let [_, channels, h, w] = conv.weight.dims();
            let (weight, bias) = (floats(&conv.weight), conv.bias.as_ref().map(floats));
            let [down, across] = conv.padding;
            let transposed = ConvTranspose2d {
                stride: conv.stride,
                padding: [down, across, down, across],
                ..ConvTranspose2d::new(channels, [h, w], &weight, bias.as_deref())
            };
            graph.conv_transpose2d(name, x, &transposed)
        }
        Layer::Dense(linear) => {
            let features = linear.weight.dims()[1];
            let (weight, bias) = (floats(&linear.weight), linear.bias.as_ref().map(floats));
            let x = if is_vector(graph, x) { x } else { graph.flatten(&format!("{name}.flat"), x)? };
            graph.gemm(name, x, &Gemm { features, weight: &weight, bias: bias.as_deref(), transposed: false })
        }
        Layer::Reshape(reshape) => graph.reshape(name, x, &reshape.shape()),
        Layer::Pointwise(layer) => graph.activation(name, x, layer.activation()),
        Layer::MaxPool(pool) => graph.max_pool2d(name, x, &Pool2d::square(pool.kernel_size[0])),
        Layer::AvgPool(pool) => graph.average_pool2d(name, x, &Pool2d::square(pool.kernel_size[0])),
        Layer::Upsample(upsample) => graph.resize_bilinear_align_corners(name, x, [upsample.size(), upsample.size()]),
        Layer::Nearest(nearest) => {
            let [height, width] = sides(graph, x);
            graph.resize_nearest(name, x, [height * nearest.factor(), width * nearest.factor()])
        }
        Layer::GroupNorm(norm) => {
            let parameter = |p: &Option<Param<Tensor<1>>>, default| match p {
                Some(values) => floats(values),
                None => vec![default; norm.num_channels],
            };
            let (scale, shift) = (parameter(&norm.gamma, 1.0), parameter(&norm.beta, 0.0));
            let norm =
                GroupNorm { groups: norm.num_groups, scale: &scale, shift: &shift, epsilon: norm.epsilon as f32 };
            graph.group_norm(name, x, &norm)
        }
        Layer::Residual(Residual { body, skip }) => {
            let [body, skip] = paths(graph, x, [(&format!("{name}.body"), body), (&format!("{name}.skip"), skip)])?;
            graph.add(name, body, skip)
        }
        Layer::Gated(Gated { body, gate }) => {
            let [body, gate] = paths(graph, x, [(&format!("{name}.body"), body), (&format!("{name}.gate"), gate)])?;
            let gate = graph.sigmoid(&format!("{name}.gate"), gate)?;
            graph.mul(name, body, gate)
        }
    }
}

fn convolution(
    graph: &mut GraphBuilder,
    name: &str,
    x: Value,
    conv: &burn::nn::conv::Conv2d,
    weight: &[f32],
) -> Result<Value, BuildError> {
    let [channels, _, h, w] = conv.weight.dims();
    let bias = conv.bias.as_ref().map(floats);
    let padding = match conv.padding {
        PaddingConfig2d::Explicit(top, left, bottom, right) => [top, left, bottom, right],
        // `Same` is not what any layer here is made with.
        PaddingConfig2d::Valid | PaddingConfig2d::Same => [0; 4],
    };
    let conv = Conv2d { stride: conv.stride, padding, ..Conv2d::new(channels, [h, w], weight, bias.as_deref()) };
    graph.conv2d(name, x, &conv)
}

/// Two paths from `x`, their results of one rank.
fn paths(graph: &mut GraphBuilder, x: Value, paths: [(&str, &Sequential); 2]) -> Result<[Value; 2], BuildError> {
    let [(first_name, first), (second_name, second)] = paths;
    let (a, b) = (layers(graph, first_name, x, first)?, layers(graph, second_name, x, second)?);
    if is_vector(graph, a) == is_vector(graph, b) {
        return Ok([a, b]);
    }
    Ok([maps(graph, &format!("{first_name}.maps"), a)?, maps(graph, &format!("{second_name}.maps"), b)?])
}

fn is_vector(graph: &GraphBuilder, x: Value) -> bool {
    graph.shape(x).is_some_and(|shape| shape.len() == 2)
}

/// `[N, D]` as `[N, D, 1, 1]`; what is `[N, C, H, W]` already stays.
fn maps(graph: &mut GraphBuilder, name: &str, x: Value) -> Result<Value, BuildError> {
    match graph.shape(x) {
        Some(&[_, Dim::Fixed(features)]) => graph.reshape(name, x, &[features, 1, 1]),
        _ => Ok(x),
    }
}

/// Height and width of `[N, C, H, W]`.
fn sides(graph: &GraphBuilder, x: Value) -> [usize; 2] {
    match graph.shape(x) {
        Some(&[_, _, Dim::Fixed(height), Dim::Fixed(width)]) => [height, width],
        // The builder refuses the resize that follows.
        _ => [0; 2],
    }
}
