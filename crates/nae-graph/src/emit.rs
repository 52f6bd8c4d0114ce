//! Writes a graph as the bytes of a `.nae` file: steps, records, the arena plan, parameters. The meaning of the bytes
//! is defined in [`nae_core::format`].

use nae_core::calibration::Spacing;
use nae_core::format::{Header, seal};
use nae_core::model::Model;

use crate::parameters::Parameters;
use crate::plan::plan;
use crate::record::record;
use crate::steps::Step;
use crate::{Graph, GraphError};

/// Returns the `.nae` file of a graph, which is checked; activations are fused into the layers before them, and the
/// arena is planned. The same graph gives the same bytes.
///
/// # Errors
/// [`GraphError`] that names the invalid layer or field.
pub fn emit(graph: &Graph) -> Result<Vec<u8>, GraphError> {
    let shapes = graph.shapes()?;
    graph.check_finite()?;
    if graph.nodes.is_empty() {
        return Err(GraphError::NoLayers);
    }
    let last = *shapes.last().unwrap_or(&graph.input());
    if last != graph.input() {
        return Err(GraphError::Reconstruction { expected: graph.input(), found: last });
    }
    let bytes = file(graph, &graph.steps(|_| true)?)?;
    // The writer must not return a file that the parser refuses.
    Model::parse(&bytes).map_err(GraphError::Refused)?;
    Ok(bytes)
}

fn file(graph: &Graph, steps: &[Step<'_>]) -> Result<Vec<u8>, GraphError> {
    let mut parameters = Parameters::default();
    let element = |tensor: usize| match tensor.checked_sub(1).and_then(|i| steps.get(i)) {
        Some(step) => step.element,
        None => graph.element,
    };
    let mut records = Vec::with_capacity(steps.len());
    for step in steps {
        let inputs = [step.input, step.other.unwrap_or(step.input)].map(element);
        records.push(record(step, inputs, graph.layout, &mut parameters)?);
    }
    let scratch: Vec<usize> = records.iter().zip(steps).map(|(record, step)| record.scratch(step.from).len).collect();
    let plan = plan(steps, &records, &scratch);
    let calibration = graph.contract.calibration();
    let table = calibration.map_or(&[][..], |calibration| calibration.table());
    let header = Header {
        layers: steps.len(),
        calibration_count: calibration.map_or(0, |calibration| calibration.count()),
        table_len: table.len(),
        spacing: calibration.map_or(Spacing::Tail, |calibration| calibration.spacing()),
        parameter_words: parameters.bytes().len() / 4,
        arena_words: plan.len,
        latent: steps.iter().position(|step| step.is_latent).map_or(0, |index| index + 1),
        prepared: graph.prepared,
        ..Header::of(&graph.contract, graph.element)
    };
    let mut bytes = header.emit()?.to_vec();
    for ((record, &offset), &scratch) in records.into_iter().zip(&plan.offsets).zip(&plan.scratch) {
        bytes.extend_from_slice(&record.placed(offset, scratch).emit()?);
    }
    bytes.extend(table.iter().flat_map(|energy| energy.to_le_bytes()));
    bytes.extend_from_slice(parameters.bytes());
    seal(&mut bytes)?;
    Ok(bytes)
}
