//! The parser: converts bytes to a [`Model`] that needs no further checks, in a `const fn`.

use super::operators::Operators;
use super::validate::{self, Tensor};
use super::{ModelError, Record, check};
use crate::Shape;
use crate::calibration::{CalibrationError, CalibrationView, Spacing, threshold_entry};
use crate::contract::{Contract, LengthError, Preprocessing, Threshold};
use crate::density::Temperature;
use crate::energy::Energy;
use crate::format::{Header, Kinds, RECORD_LEN, check};
use crate::layer::Element;
use crate::quantization::Quantization;

/// A checked model, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    layers: &'a [[u8; RECORD_LEN]],
    parameters: &'a [u8],
    contract: Contract<CalibrationView<'a>>,
    element: Element,
    prepared: bool,
    latent: usize,
    latent_record: Option<Record>,
    arena_len: usize,
    operators: Operators,
}

impl<'a> Model<'a> {
    /// Checks the bytes of a `.nae` file and reads it in place. The [format](crate::format) lists all that is checked.
    /// Time is linear in the file's length, plus the square of the number of layers: layers that together have more
    /// parameters than the file are refused, so that none are read twice.
    ///
    /// # Errors
    /// [`ModelError`] that names the first fault found.
    pub const fn parse(bytes: &'a [u8]) -> Result<Self, ModelError> {
        let (header, body) = check!(Header::split(bytes));
        let header = check!(Header::parse(header));
        let layers_len = header.layers * RECORD_LEN;
        let expected = layers_len + header.table_len * 4;
        // Both sides are below 2^32: the table and layers are short, and the file's length was checked.
        if expected > body.len() || header.parameter_words != (body.len() - expected) / 4 {
            return Err(ModelError::Length);
        }
        let Some((layers, rest)) = body.split_at_checked(layers_len) else {
            return Err(ModelError::Length);
        };
        let Some((table, parameters)) = rest.split_at_checked(header.table_len * 4) else {
            return Err(ModelError::Length);
        };
        if !parameters.len().is_multiple_of(4) {
            return Err(ModelError::Length);
        }
        let (layers, _) = layers.as_chunks();
        let (table, _) = table.as_chunks();
        if validate::volume(header.input).is_none() {
            return Err(ModelError::InputShape);
        }
        if header.latent > header.layers {
            return Err(ModelError::Latent);
        }
        let image = Tensor { shape: header.input, element: header.element };
        let operators = check!(check::layers(layers, image, header.latent, parameters, header.arena_words));
        let latent_record = check!(check::outputs(layers, image, header.latent));
        let calibration = check!(check_calibration(header.calibration_count as u32, header.spacing, table));
        if let Some(threshold) = header.threshold {
            let count = header.calibration_count as u32;
            let entry = threshold_entry(count, header.spacing, threshold.false_positive_rate);
            check!(check_threshold(threshold, entry, table));
        }
        Ok(Self {
            layers,
            parameters,
            contract: Contract::from_checked(
                (header.input, header.preprocessing),
                (header.energy, header.temperature),
                header.log_normalizer,
                calibration,
                header.threshold,
            ),
            element: header.element,
            prepared: header.prepared,
            latent: header.latent,
            latent_record,
            arena_len: header.arena_words,
            operators: operators.with(match header.element {
                Element::F32 => Operators::energy(header.energy),
                Element::I8(_) => Operators::energy_i8(header.energy),
            }),
        })
    }

    /// The image that the model takes, its energy, and its calibration.
    pub const fn contract(&self) -> &Contract<CalibrationView<'a>> {
        &self.contract
    }

    /// Shape of the image and of its reconstruction.
    pub const fn input_shape(&self) -> Shape {
        self.contract.input
    }

    /// Whether the device makes samples by steps that the file does not contain, such as a crop or the columns of a table
    /// ([`Header::prepared`]). An image that is only resized to the input is then no sample of the model.
    pub const fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// Shape of the latent code, if the model has marked it.
    pub const fn latent_shape(&self) -> Option<Shape> {
        match self.latent_record {
            Some(record) => Some(record.output),
            None => None,
        }
    }

    /// Scale and zero point of the image, if it is 8-bit. The engine then takes it by
    /// [`run_i8`](crate::engine::Engine::run_i8).
    pub const fn image_quantization(&self) -> Option<Quantization> {
        self.element.quantization()
    }

    /// Scale and zero point of the reconstruction, if it and the image are 8-bit.
    pub fn reconstruction_quantization(&self) -> Option<Quantization> {
        self.layer(self.layers.len().wrapping_sub(1), Kinds::NONE).and_then(|layer| layer.element.quantization())
    }

    /// Scale and zero point of the latent code, if there is one and it is 8-bit.
    pub const fn latent_quantization(&self) -> Option<Quantization> {
        match self.latent_record {
            Some(record) => record.element.quantization(),
            None => None,
        }
    }

    /// Length of the arena that the engine needs, in `f32`: words of four bytes, also for 8-bit values.
    pub const fn arena_len(&self) -> usize {
        self.arena_len
    }

    /// Number of words of four bytes that an image takes as the model's input: one for each `f32`, or for each four
    /// 8-bit values.
    pub const fn image_words(&self) -> usize {
        let len = self.input_shape().len();
        match self.element {
            Element::F32 => len,
            Element::I8(_) => len.div_ceil(4),
        }
    }

    /// The operators that the model uses.
    pub const fn operators(&self) -> Operators {
        self.operators
    }

    /// The energy of an image and its reconstruction.
    pub const fn energy(&self) -> Energy {
        self.contract.energy
    }

    /// The preparation of an image before it is given to the model.
    pub const fn preprocessing(&self) -> Preprocessing {
        self.contract.preprocessing
    }

    /// Converts the bytes of an image to the 8-bit values of a model whose image is 8-bit; both are HWC. Each byte is
    /// converted by [`Preprocessing`] and [`Quantization::quantize`]; if that only shifts bytes by 128, as in models
    /// quantized for the range `[0, 1]`, no floating point is used.
    ///
    /// # Errors
    /// [`LengthError`] if the lengths differ or the model's image is not 8-bit; nothing is written then.
    pub fn quantize_bytes(&self, bytes: &[u8], image: &mut [i8]) -> Result<(), LengthError> {
        let Some(quantization) = self.image_quantization() else {
            return Err(LengthError);
        };
        if bytes.len() != image.len() {
            return Err(LengthError);
        }
        let preprocessing = self.contract.preprocessing;
        // An affine map that is right at 0 and 254 is less than half a step off between them. Byte 255 gives no
        // information on the steps, since all greater values become 127, too.
        let known = [0, 254, 255].map(|byte| quantization.quantize(preprocessing.value(byte)));
        let is_shift = preprocessing.low() == 0.0 && known == [-128, 126, 127] && quantization.zero_point() == -128;
        for (value, byte) in image.iter_mut().zip(bytes) {
            *value = if is_shift { (byte ^ 0x80) as i8 } else { quantization.quantize(preprocessing.value(*byte)) };
        }
        Ok(())
    }

    /// Temperature T of the density exp(−E/T)/Ω.
    pub const fn temperature(&self) -> Temperature {
        self.contract.temperature
    }

    /// log Ω, if it is known.
    pub const fn log_normalizer(&self) -> Option<f32> {
        self.contract.log_normalizer()
    }

    /// The false-positive rate that the threshold is for, if there is a threshold.
    pub const fn target_false_positive_rate(&self) -> Option<f32> {
        match self.contract.threshold() {
            Some(threshold) => Some(threshold.false_positive_rate),
            None => None,
        }
    }

    /// The energy above which the verdict is an anomaly, if the model has a threshold.
    pub const fn threshold(&self) -> Option<f32> {
        match self.contract.threshold() {
            Some(threshold) => Some(threshold.energy),
            None => None,
        }
    }

    /// Calibration from held-out normal data, if the model has one.
    pub const fn calibration(&self) -> Option<CalibrationView<'a>> {
        match self.contract.calibration() {
            Some(calibration) => Some(*calibration),
            None => None,
        }
    }

    /// Number of layers.
    pub const fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// Number of bytes of weights, biases, multipliers and tables.
    pub const fn parameter_bytes(&self) -> usize {
        self.parameters.len()
    }

    /// Number of parameters: weights and biases, and the scales and shifts of group normalization. It is the same for
    /// every layout of 8-bit weights.
    pub fn weight_count(&self) -> u64 {
        self.layers().map(|layer| layer.parameter_count(self.shape(layer.input))).fold(0, u64::saturating_add)
    }

    /// The cost of one run, layers and energy, in units of about one multiply-accumulate, as defined by
    /// [`Record::operations`](crate::format::Record::operations) and [`Energy::operations`]. A device or a host that
    /// takes files from strangers can refuse a model that would run too long.
    pub fn operations(&self) -> u64 {
        let energy = self.energy().operations(self.input_shape());
        self.layers().map(|layer| layer.operations(self.shape(layer.input))).fold(energy, u64::saturating_add)
    }

    /// Number of multiply-accumulates of convolutions and dense layers in one run, and of values that pooling layers
    /// read, padding included in both: the figure by which networks are compared. It leaves out all other layers and
    /// the energy, and so does not limit the time of a run; [`operations`](Self::operations) does.
    pub fn multiply_accumulates(&self) -> u64 {
        self.layers().map(|layer| layer.multiply_accumulates(self.shape(layer.input))).fold(0, u64::saturating_add)
    }

    /// Shape of a tensor: 0 is the image, n the output of layer n − 1.
    fn shape(&self, tensor: usize) -> Shape {
        let layer = tensor.checked_sub(1).and_then(|index| self.layer(index, Kinds::NONE));
        layer.map_or(self.contract.input, |layer| layer.output)
    }

    /// The layers, in order.
    pub fn layers(&self) -> impl Iterator<Item = Record> + use<'a> {
        self.layers.iter().map(|bytes| Record::read(bytes, Kinds::ALL))
    }

    /// Layer `index`, whose kind is among `kinds`.
    #[inline(always)]
    pub(crate) fn layer(&self, index: usize, kinds: Kinds) -> Option<Record> {
        self.layers.get(index).map(|bytes| Record::read(bytes, kinds))
    }

    pub(crate) const fn latent_record(&self) -> Option<Record> {
        self.latent_record
    }

    /// Number of the latent tensor, 0 if there is none.
    pub const fn latent_tensor(&self) -> usize {
        self.latent
    }

    pub(crate) const fn parameters(&self) -> &'a [u8] {
        self.parameters
    }

    pub(crate) const fn element(&self) -> Element {
        self.element
    }
}

const fn check_calibration(
    count: u32,
    spacing: Spacing,
    table: &[[u8; 4]],
) -> Result<Option<CalibrationView<'_>>, ModelError> {
    if count == 0 {
        return Ok(None);
    }
    let mut previous = f32::MIN;
    let mut i = 0;
    while i < table.len() {
        let value = f32::from_le_bytes(table[i]);
        if !value.is_finite() || value < previous {
            return Err(ModelError::Calibration);
        }
        previous = value;
        i += 1;
    }
    Ok(Some(CalibrationView::from_checked_bytes(count, spacing, table)))
}

/// Checks that the threshold is the one that the calibration gives for its rate.
const fn check_threshold(
    threshold: Threshold,
    entry: Result<usize, CalibrationError>,
    table: &[[u8; 4]],
) -> Result<(), ModelError> {
    match entry {
        Ok(entry) if entry < table.len() && f32::from_le_bytes(table[entry]) == threshold.energy => Ok(()),
        _ => Err(ModelError::Calibration),
    }
}
