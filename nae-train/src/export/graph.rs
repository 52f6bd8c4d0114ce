//! The network as an ONNX graph: each layer of [`arch`](crate::arch) as its operator.

use nae_onnx::autoencoder::{IMAGE, LATENT, RECONSTRUCTION, add_outputs};
use nae_onnx::builder::{BuildError, Conv2d, ConvTranspose2d, Dim, GraphBuilder, Pool2d, Value};
use nae_onnx::metadata::ModelMetadata;

use crate::arch::layer::{Layer, Sequential};
use crate::arch::{Autoencoder, AutoencoderSpec, LatentSpace};
use crate::engine::network::floats;

pub(super) fn autoencoder(
    model: &Autoencoder,
    spec: &AutoencoderSpec,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("autoencoder");
    metadata.add_to(&mut graph);
    let image = image_input(&mut graph, spec)?;
    let latent = encode(&mut graph, image, model)?;
    let reconstruction = layers(&mut graph, "decoder", latent, &model.decoder)?;
    add_outputs(&mut graph, image, reconstruction, latent, spec.energy())?;
    graph.finish_bytes()
}

pub(super) fn encoder(model: &Autoencoder, spec: &AutoencoderSpec) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("encoder");
    let image = image_input(&mut graph, spec)?;
    let latent = encode(&mut graph, image, model)?;
    let flat = graph.flatten("latent.flat", latent)?;
    graph.output(LATENT, flat)?;
    graph.finish_bytes()
}

pub(super) fn decoder(model: &Autoencoder, spec: &AutoencoderSpec) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("decoder");
    let dim = spec.latent_dim();
    let flat = graph.input(LATENT, &[Dim::Batch, Dim::Fixed(dim)])?;
    let latent = graph.reshape("latent.image", flat, &[dim, 1, 1])?;
    let reconstruction = layers(&mut graph, "decoder", latent, &model.decoder)?;
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

fn layers(graph: &mut GraphBuilder, prefix: &str, input: Value, chain: &Sequential) -> Result<Value, BuildError> {
    chain
        .layers()
        .iter()
        .enumerate()
        .try_fold(input, |x, (index, layer)| operator(graph, &format!("{prefix}.{index}"), x, layer))
}

fn operator(graph: &mut GraphBuilder, name: &str, x: Value, layer: &Layer) -> Result<Value, BuildError> {
    match layer {
        Layer::Conv(conv) => {
            let [channels, _, h, w] = conv.weight.dims();
            let (weight, bias) = (floats(&conv.weight), conv.bias.as_ref().map(floats));
            graph.conv2d(name, x, &Conv2d::new(channels, [h, w], &weight, bias.as_deref()))
        }
        Layer::ConvTranspose(conv) => {
            let [_, channels, h, w] = conv.weight.dims();
            let (weight, bias) = (floats(&conv.weight), conv.bias.as_ref().map(floats));
            graph.conv_transpose2d(name, x, &ConvTranspose2d::new(channels, [h, w], &weight, bias.as_deref()))
        }
        Layer::Relu(_) => graph.relu(name, x),
        Layer::Sigmoid(_) => graph.sigmoid(name, x),
        Layer::MaxPool(pool) => graph.max_pool2d(name, x, &Pool2d::square(pool.kernel_size[0])),
        Layer::Upsample(upsample) => graph.resize_bilinear_align_corners(name, x, [upsample.size(), upsample.size()]),
    }
}
