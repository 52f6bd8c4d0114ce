//! tract, one image at a time: its plans have a fixed batch size, and an image's result then does not depend on the rest of
//! its batch.

use std::collections::HashMap;
use std::sync::Arc;

use nae_onnx::check::graph::{Dim, OnnxGraph, OnnxNode, Operator, ValueId};
use nae_onnx::excerpt;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, ModelProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::format_err;

use super::{Backend, BackendError, BackendKind, Outputs, Reconstructions, guarded};

const KIND: BackendKind = BackendKind::Tract;

pub(super) struct Tract {
    plan: Arc<TypedRunnableModel>,
    outputs: Outputs,
}

impl Tract {
    pub(super) fn load(bytes: &[u8], graph: &OnnxGraph) -> Result<Self, BackendError> {
        let outputs = Outputs::find(KIND, graph)?;
        if let Some((node, what)) = computed_wrongly(graph, &outputs) {
            let reason = format!("tract computes wrong values of node `{}`: {what}", excerpt(&node.name));
            return Err(BackendError::Load { backend: KIND, reason });
        }
        let plan =
            plan(bytes, graph, &outputs).map_err(|e| BackendError::Load { backend: KIND, reason: format!("{e:#}") })?;
        Ok(Self { plan, outputs })
    }

    fn run(&self, image: &[f32]) -> TractResult<Reconstructions> {
        let s = self.outputs.shape;
        let input = Tensor::from_shape(&[1, s.channels, s.height, s.width], image)?;
        let mut results = self.plan.run(tvec!(input.into()))?.into_iter();
        let mut next = || -> TractResult<Vec<f32>> {
            let tensor = results.next().ok_or_else(|| format_err!("an output is missing"))?;
            Ok(tensor.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
        };
        let reconstruction = next()?;
        let beside = self.outputs.beside.map(|_| next()).transpose()?;
        Ok(self.outputs.reconstructions(reconstruction, beside))
    }
}

/// A node of which tract 0.23.9 computes wrong values, without an error, and what it does wrong.
fn computed_wrongly<'g>(graph: &'g OnnxGraph, outputs: &Outputs) -> Option<(&'g OnnxNode, &'static str)> {
    let computed = std::iter::once(outputs.reconstruction.as_str()).chain(outputs.beside);
    let needed = graph.ancestors(computed.filter_map(|name| graph.output(name)));
    let exchanged = "it exchanges the operands of Sub or Div if the first has one number for each channel";
    let expanded = "it convolves channels that Expand has repeated as if there were one of them";
    let exchanges = exchanges_operands(graph, &needed).map(|node| (node, exchanged));
    exchanges.or_else(|| convolves_expanded(graph, &needed).map(|node| (node, expanded)))
}

/// The first node whose operands tract exchanges. If the second operand of `Sub` or `Div` is a convolution, which tract
/// computes together with operations on its result, and the first operand is one number for each channel, constant or not,
/// then tract exchanges the two. One number for all is one for each channel where there is one channel. Some convolutions, of one
/// tap for example, are not concerned; all are taken to be.
fn exchanges_operands<'g>(graph: &'g OnnxGraph, needed: &[bool]) -> Option<&'g OnnxNode> {
    // Whether a value is a convolution with only operations on single elements, or a change of shape, after it.
    let mut convolved = vec![false; graph.values.len()];
    graph.nodes.iter().filter(|node| needed[node.output]).find(|node| {
        convolved[node.output] = match node.operator {
            Operator::Conv { .. } => true,
            Operator::Activation(_)
            | Operator::Abs
            | Operator::Sqrt
            | Operator::Clip { .. }
            | Operator::Add
            | Operator::Sub
            | Operator::Mul
            | Operator::Div
            | Operator::Pow
            | Operator::BatchNormalization { .. }
            | Operator::Expand
            | Operator::Reshape => node.inputs.iter().any(|&input| convolved[input]),
            _ => false,
        };
        match (&node.operator, node.inputs.as_slice()) {
            (Operator::Sub | Operator::Div, &[first, second]) => convolved[second] && is_by_axis(graph, first, second),
            _ => false,
        }
    })
}

/// The first convolution of one tap that reads channels which `Expand` has repeated. Behind some operations tract computes it
/// rightly; it is refused behind all.
fn convolves_expanded<'g>(graph: &'g OnnxGraph, needed: &[bool]) -> Option<&'g OnnxNode> {
    let shape = |value: ValueId| graph.values[value].shape.as_slice();
    let repeats = |node: &OnnxNode| {
        let (from, to) = (shape(node.inputs[0]), shape(node.output));
        from.len() != to.len() || from.get(1) != to.get(1)
    };
    let mut expanded = vec![false; graph.values.len()];
    graph.nodes.iter().filter(|node| needed[node.output]).find(|node| {
        let reads = node.inputs.iter().any(|&input| expanded[input]);
        expanded[node.output] = match node.operator {
            Operator::Expand => reads || repeats(node),
            Operator::Conv { .. } | Operator::ConvTranspose { .. } | Operator::Gemm { .. } | Operator::MatMul => false,
            _ => reads,
        };
        matches!(&node.operator, Operator::Conv { window, groups: 1 } if window.kernel == [1; 2]) && reads
    })
}

/// Whether the numbers of the first value are along one axis, along which the second value has as many. A single number is
/// along every axis of extent 1.
fn is_by_axis(graph: &OnnxGraph, first: ValueId, second: ValueId) -> bool {
    // From the last axis on, as shapes are broadcast.
    let extents = |value: ValueId| {
        graph.values[value].shape.iter().rev().map(|dim| if let Dim::Fixed(extent) = *dim { extent } else { 1 })
    };
    let mut several = extents(first).enumerate().filter(|(_, extent)| *extent > 1);
    match (several.next(), several.next()) {
        (Some((axis, extent)), None) => extents(second).nth(axis) == Some(extent),
        (None, _) => extents(second).take(graph.values[second].shape.len().saturating_sub(1)).any(|extent| extent == 1),
        (Some(_), Some(_)) => false,
    }
}

/// Writes the padding of convolutions that a file calls `SAME` as numbers. If a convolution of one tap and a larger stride
/// follows, tract 0.23.9 skips what it would not read, and computes `SAME` for the larger stride then.
fn write_padding(model: &mut ModelProto, graph: &OnnxGraph) {
    let padding: HashMap<&str, [usize; 4]> = graph
        .nodes
        .iter()
        .filter_map(|node| match &node.operator {
            Operator::Conv { window, .. } => Some((graph.values[node.output].name.as_str(), window.padding)),
            _ => None,
        })
        .collect();
    for node in model.graph.iter_mut().flat_map(|graph| &mut graph.node) {
        let Some(padding) = node.output.first().and_then(|name| padding.get(name.as_str())) else { continue };
        if node.attribute.iter().any(|attribute| attribute.name == "auto_pad" && attribute.s.starts_with(b"SAME")) {
            node.attribute.retain(|attribute| !["auto_pad", "pads"].contains(&attribute.name.as_str()));
            node.attribute.push(AttributeProto {
                name: "pads".to_owned(),
                r#type: AttributeType::Ints as i32,
                ints: padding.map(|pixels| pixels as i64).to_vec(),
                ..AttributeProto::default()
            });
        }
    }
}

fn plan(bytes: &[u8], graph: &OnnxGraph, outputs: &Outputs) -> TractResult<Arc<TypedRunnableModel>> {
    // Optimised plans need a fixed batch size; with a symbolic one they are slow, or fail. The shapes that the file states for
    // values inside the network may contain the batch size, by any name, and would contradict it.
    let onnx = tract_onnx::onnx().with_ignore_value_info(true);
    let mut file = onnx.proto_model_for_read(&mut std::io::Cursor::new(bytes))?;
    write_padding(&mut file, graph);
    let mut model = onnx.model_for_proto_model(&file)?;
    let s = outputs.shape;
    model.set_input_fact(0, f32::fact([1, s.channels, s.height, s.width]).into())?;
    // Only the outputs that are used; energies are computed elsewhere.
    let wanted: Vec<&str> = std::iter::once(outputs.reconstruction.as_str()).chain(outputs.beside).collect();
    let labels: HashMap<&str, OutletId> = model
        .output_outlets()?
        .iter()
        .map(|&o| (model.outlet_label(o).unwrap_or(model.node(o.node).name.as_str()), o))
        .collect();
    let outlets = wanted
        .iter()
        .map(|name| labels.get(name).copied().ok_or_else(|| format_err!("no output `{name}`")))
        .collect::<TractResult<Vec<_>>>()?;
    model.select_output_outlets(&outlets)?;
    model.into_optimized()?.into_runnable()
}

impl Backend for Tract {
    fn kind(&self) -> BackendKind {
        KIND
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        let mut all = Reconstructions::default();
        for image in batch.chunks_exact(self.outputs.shape.len()) {
            all.append(guarded(KIND, true, || {
                self.run(image).map_err(|e| BackendError::Run { backend: KIND, reason: format!("{e:#}") })
            })?);
        }
        Ok(all)
    }
}
