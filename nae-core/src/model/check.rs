//! Checks that the layers of a file fit together: the tensors that each reads, and the arena plan. All functions are
//! `const`.

use super::operators::Operators;
use super::validate::{self, Tensor};
use super::{LayerFault, ModelError, Record};
use crate::format::{MAX_LAYERS, RECORD_LEN, check};
use crate::layer::Element;

/// Parses layer `index`, which must exist.
const fn record(layers: &[[u8; RECORD_LEN]], index: usize) -> Result<Record, ModelError> {
    // The compiler cannot derive this; the explicit check avoids linking a panic.
    if index >= layers.len() {
        return Err(ModelError::LayerCount);
    }
    match Record::parse(&layers[index]) {
        Ok(record) => Ok(record),
        Err(fault) => Err(fault_of(index, fault)),
    }
}

/// The last layer that reads each tensor; the number of layers represents the end.
struct LastRead([u16; MAX_LAYERS + 1]);

impl LastRead {
    /// Returns the last layer that reads the tensor; 0 if no layer reads it.
    const fn of(&self, tensor: usize) -> usize {
        if tensor < self.0.len() { self.0[tensor] as usize } else { 0 }
    }

    const fn set(&mut self, tensor: usize, layer: usize) {
        if tensor < self.0.len() {
            self.0[tensor] = layer as u16;
        }
    }
}

const fn fault_of(index: usize, fault: LayerFault) -> ModelError {
    ModelError::Layer { index: index as u16, fault }
}

/// Returns a tensor that an earlier layer has written.
const fn tensor(layers: &[[u8; RECORD_LEN]], image: Tensor, index: usize) -> Result<Tensor, ModelError> {
    if index == 0 {
        return Ok(image);
    }
    let record = check!(record(layers, index - 1));
    Ok(Tensor { shape: record.output, element: record.element })
}

/// Checks all layers, their parameters and their use of an arena of `arena` words; returns the operators that they
/// need. The layers together have no more parameters than the file, so that these are read once: the time does not
/// depend on how many layers there are.
pub(super) const fn layers(
    layers: &[[u8; RECORD_LEN]],
    image: Tensor,
    latent: usize,
    parameters: &[u8],
    arena: usize,
) -> Result<Operators, ModelError> {
    let mut operators = Operators::NONE;
    let mut last_read = LastRead([0; MAX_LAYERS + 1]);
    let mut words_left = parameters.len() / 4;
    let mut index = 0;
    while index < layers.len() {
        let layer = check!(record(layers, index));
        if layer.input > index {
            return Err(fault_of(index, LayerFault::Tensor));
        }
        let input = check!(tensor(layers, image, layer.input));
        if let Some(other) = layer.operation.other() {
            if other > index {
                return Err(fault_of(index, LayerFault::Tensor));
            }
            last_read.set(other, index);
            let other = check!(tensor(layers, image, other));
            if !validate::same(other.shape, input.shape) || !other.element.has_type_of(input.element) {
                return Err(fault_of(index, LayerFault::Tensor));
            }
        }
        last_read.set(layer.input, index);
        words_left = match words_left.checked_sub(layer.parameter_words()) {
            Some(left) => left,
            None => return Err(fault_of(index, LayerFault::Weights)),
        };
        if let Err(fault) = validate::layer(&layer, input, parameters, arena) {
            return Err(fault_of(index, fault));
        }
        operators = operators.with(Operators::record(&layer));
        index += 1;
    }
    last_read.set(latent, layers.len());
    last_read.set(layers.len(), layers.len());

    let mut index = 1;
    while index < layers.len() {
        let writer = check!(record(layers, index));
        let input = check!(tensor(layers, image, writer.input)).shape;
        let mut earlier = 1;
        while earlier <= index {
            let written = check!(record(layers, earlier - 1));
            let read = last_read.of(earlier);
            // A tensor that no layer reads is dead once the next layer runs.
            if !validate::may_overwrite(&writer, input, index, earlier, &written, read) {
                return Err(fault_of(index, LayerFault::Overlap));
            }
            earlier += 1;
        }
        index += 1;
    }
    Ok(operators)
}

/// Checks that the output of the last layer can be compared with the image and that the latent tensor has the image's
/// type; returns the layer that writes the latent tensor, if there is one.
pub(super) const fn outputs(
    layers: &[[u8; RECORD_LEN]],
    image: Tensor,
    latent: usize,
) -> Result<Option<Record>, ModelError> {
    let last = check!(record(layers, layers.len().saturating_sub(1)));
    let comparable = match (image.element, last.element) {
        (Element::F32, Element::F32) => true,
        (Element::I8(x), Element::I8(y)) => crate::energy::are_comparable(x, y),
        _ => false,
    };
    if !validate::same(last.output, image.shape) || !comparable {
        return Err(ModelError::Reconstruction);
    }
    if latent == 0 {
        return Ok(None);
    }
    let latent = check!(record(layers, latent - 1));
    if !latent.element.has_type_of(image.element) {
        return Err(ModelError::Latent);
    }
    Ok(Some(latent))
}
