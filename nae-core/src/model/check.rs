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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    extern crate std;

    use super::*;
    use crate::Shape;
    use crate::format::{Geometry, Operation, Pair};
    use crate::layer::{Activation, Padding};
    use crate::quantization::Quantization;
    use std::vec::Vec;

    const SHAPE: Shape = Shape::new(1, 2, 2);
    const IMAGE: Tensor = Tensor { shape: SHAPE, element: Element::F32 };
    const RELU: Operation = Operation::Activation(Activation::Relu);

    fn i8(scale: f32) -> Element {
        Element::I8(Quantization::new(scale, 0).unwrap())
    }

    fn add(other: usize) -> Operation {
        Operation::Add(Pair { other, int8: None })
    }

    /// A layer that reads tensor `input` and writes as many values as the image has.
    fn layer(input: usize, operation: Operation, element: Element, offset: usize) -> Record {
        Record { input, output: SHAPE, element, offset, operation }
    }

    fn bytes(records: &[Record]) -> Vec<[u8; RECORD_LEN]> {
        records.iter().map(|record| record.emit().unwrap()).collect()
    }

    /// Checks layers without parameters in an arena that is large enough.
    fn check(records: &[Record], latent: usize) -> Result<(), ModelError> {
        layers(&bytes(records), IMAGE, latent, &[], 100).map(|_| ())
    }

    #[test]
    fn a_layer_reads_tensors_of_earlier_layers() {
        let first = layer(0, RELU, Element::F32, 0);
        for (operation, input, expected) in [
            (RELU, 1, Ok(())),
            (RELU, 2, Err(fault_of(1, LayerFault::Tensor))),
            (add(1), 0, Ok(())),
            (add(2), 0, Err(fault_of(1, LayerFault::Tensor))),
        ] {
            assert_eq!(check(&[first, layer(input, operation, Element::F32, 4)], 0), expected, "{operation:?}");
        }
    }

    #[test]
    fn two_tensors_that_are_combined_have_one_shape() {
        for shape in [Shape::new(2, 2, 2), Shape::new(1, 1, 2), Shape::new(1, 2, 1), Shape::new(4, 1, 1)] {
            // By nearest neighbours, or by another view of the same values.
            let operation = if shape.len() == 4 { Operation::Reshape } else { Operation::ResizeNearest };
            let image = if shape.channels == 2 { Shape::new(2, 1, 1) } else { SHAPE };
            let other = Record { output: shape, ..layer(0, operation, Element::F32, 0) };
            let sum = Record { output: image, ..layer(0, add(1), Element::F32, 20) };
            let found = layers(&bytes(&[other, sum]), Tensor { shape: image, ..IMAGE }, 0, &[], 100);
            assert_eq!(found.map(|_| ()), Err(fault_of(1, LayerFault::Tensor)), "{shape}");
        }
    }

    #[test]
    fn two_tensors_that_are_combined_have_one_type() {
        let quantize = layer(0, Operation::Quantize, i8(1.0), 0);
        for (input, other, element) in [(0, 1, Element::F32), (1, 0, i8(1.0))] {
            let found = check(&[quantize, layer(input, add(other), element, 4)], 0);
            assert_eq!(found, Err(fault_of(1, LayerFault::Tensor)), "{input} and {other}");
        }
        assert_eq!(check(&[quantize, layer(0, add(0), Element::F32, 4)], 0), Ok(()));
    }

    #[test]
    fn the_latent_tensor_is_kept_to_the_end() {
        let records = [layer(0, RELU, Element::F32, 0), layer(1, RELU, Element::F32, 0)];
        let overwritten = Err(fault_of(1, LayerFault::Overlap));
        assert_eq!([0, 1, 2].map(|latent| check(&records, latent)), [Ok(()), overwritten, Ok(())]);
    }

    #[test]
    fn a_second_tensor_is_kept_until_it_is_read() {
        let first = [layer(0, RELU, Element::F32, 0), layer(1, RELU, Element::F32, 4), layer(2, RELU, Element::F32, 0)];
        let sum = |other| {
            let [a, b, c] = first;
            check(&[a, b, c, layer(3, add(other), Element::F32, 8)], 0)
        };
        // The third layer writes over the first one's output.
        assert_eq!((sum(1), sum(2)), (Err(fault_of(2, LayerFault::Overlap)), Ok(())));
        // So does the sum itself, which reads it as its second tensor.
        let [a, b, _] = first;
        assert_eq!(check(&[a, b, layer(2, add(1), Element::F32, 0)], 0), Err(fault_of(2, LayerFault::Overlap)));
    }

    #[test]
    fn a_latent_tensor_has_the_images_type() {
        let records =
            bytes(&[layer(0, Operation::Quantize, i8(1.0), 0), layer(1, Operation::Dequantize, Element::F32, 4)]);
        let latent = |number| outputs(&records, IMAGE, number).map(|record| record.map(|record| record.offset));
        assert_eq!([0, 1, 2].map(latent), [Ok(None), Err(ModelError::Latent), Ok(Some(4))]);
    }

    #[test]
    fn a_reconstruction_has_the_images_shape_and_type() {
        let last = |record: Record, element| outputs(&bytes(&[record]), Tensor { shape: SHAPE, element }, 0);
        let relu = layer(0, RELU, Element::F32, 0);
        assert_eq!(last(relu, Element::F32), Ok(None));
        assert_eq!(last(layer(0, Operation::Reshape, i8(0.5), 0), i8(0.25)), Ok(None));
        for (record, element) in [
            (Record { output: Shape::new(2, 2, 2), ..relu }, Element::F32),
            (layer(0, Operation::Quantize, i8(0.5), 0), Element::F32),
            (layer(0, Operation::Dequantize, Element::F32, 0), i8(0.5)),
            // Too far from each other to be compared.
            (layer(0, Operation::Reshape, i8(1e6), 0), i8(1.0)),
        ] {
            assert_eq!(last(record, element), Err(ModelError::Reconstruction), "{record:?}");
        }
        assert_eq!(outputs(&[], IMAGE, 0), Err(ModelError::LayerCount));
    }

    #[test]
    fn a_fault_has_the_number_of_its_layer() {
        let geometry = Geometry { kernel: [3, 3], stride: [1, 1], padding: Padding::NONE };
        let relu = layer(0, RELU, Element::F32, 0);
        let found = check(&[relu, layer(1, Operation::MaxPool2d(geometry), Element::F32, 4)], 0);
        assert_eq!(found, Err(ModelError::Layer { index: 1, fault: LayerFault::Geometry }));
        let mut records = bytes(&[relu, relu]);
        records[1][0] = 99;
        assert_eq!(layers(&records, IMAGE, 0, &[], 100).map(|_| ()), Err(fault_of(1, LayerFault::Kind)));
    }

    #[test]
    fn only_tensors_that_a_model_can_have_are_noted() {
        let mut last_read = LastRead([0; MAX_LAYERS + 1]);
        last_read.set(MAX_LAYERS, 7);
        last_read.set(MAX_LAYERS + 1, 8);
        assert_eq!([0, MAX_LAYERS, MAX_LAYERS + 1].map(|tensor| last_read.of(tensor)), [0, 7, 0]);
    }
}
