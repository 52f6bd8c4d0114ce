//! Converts TFLite to the layer list of `nae-core`: dense networks quantized to int8, such as the
//! anomaly detector of MLPerf Tiny. Their scales are kept, so that the engine gives the results of
//! TFLite's reference kernels, bit for bit.
//!
//! Supported are models with one subgraph, which is a chain from one input to one output with the
//! same number of values. It may contain `FULLY_CONNECTED` (int8 weights, per tensor or per
//! channel; no fused activation, ReLU, ReLU6 or ReLU between −1 and 1), `RESHAPE`, and `QUANTIZE`
//! or `DEQUANTIZE` between f32 and int8. **Not supported**: convolutions, other operators, float
//! weights, several inputs or outputs.
//!
//! A file without this project's metadata has squared L2 energy, temperature 1 and no calibration.
//!
//! `flatbuffer` reads the container, `schema` TFLite's tables in it.

mod error;
mod flatbuffer;
mod schema;

use nae_core::Shape;
use nae_core::layer::{Activation, Element};
use nae_core::quantization::Quantization;
use nae_graph::{Dense, Graph, GraphError, Int8Layer, Int8Operation, Op, emit};

pub use error::TfliteError;
use schema::{File, FusedActivation, Operator, Tensor, TensorType};

/// Converts the bytes of a `.tflite` file to those of a `.nae` file.
///
/// # Errors
/// [`TfliteError`], with the operator or tensor that prevents the conversion.
pub fn to_nae(tflite: &[u8]) -> Result<Vec<u8>, TfliteError> {
    emit(&lower(tflite)?).map_err(TfliteError::Write)
}

/// Whether the bytes begin like a TFLite file.
pub fn is_tflite(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(b"TFL3")
}

/// The layer list of a TFLite file.
///
/// # Errors
/// As for [`to_nae`].
pub fn lower(tflite: &[u8]) -> Result<Graph, TfliteError> {
    let file = File::read(tflite)?;
    let input = file.tensor(file.input)?;
    let mut chain = Chain {
        graph: Graph::new(Shape::vector(values(&input)?)),
        tensor: file.input,
        file: &file,
        unused: tflite.len(),
    };
    chain.graph.element = match input.kind {
        TensorType::Int8 => Element::I8(quantization(&input)?),
        TensorType::Float32 => Element::F32,
        other => return Err(TfliteError::tensor(&input, format!("it is {other}, not int8 or f32"))),
    };
    for (index, operator) in file.operators.iter().enumerate() {
        chain.push(index, operator)?;
    }
    let graph = chain.graph;
    if chain.tensor != file.output {
        return Err(TfliteError::Chain { reason: "the last operator does not write the model's output".to_owned() });
    }
    match graph.shapes() {
        Ok(shapes) if shapes.last() == Some(&graph.input()) => Ok(graph),
        Ok(shapes) => Err(TfliteError::Write(GraphError::Reconstruction {
            expected: graph.input(),
            found: shapes.last().copied().unwrap_or(graph.input()),
        })),
        Err(error) => Err(TfliteError::Write(error)),
    }
}

/// The state of the conversion.
struct Chain<'f> {
    graph: Graph,
    /// The tensor that the next operator must read.
    tensor: usize,
    file: &'f File<'f>,
    /// The number of bytes of the file that are not yet used as weights: operators that share
    /// weights could otherwise request any amount of memory.
    unused: usize,
}

impl Chain<'_> {
    fn push(&mut self, index: usize, operator: &Operator<'_>) -> Result<(), TfliteError> {
        let refuse = |reason: String| TfliteError::Operator { index, operator: operator.name(), reason };
        if operator.inputs.first() != Some(&Some(self.tensor)) {
            return Err(refuse("it does not read what the operator before it writes".to_owned()));
        }
        let &[output] = operator.outputs.as_slice() else {
            return Err(refuse(format!("it has {} outputs, not one", operator.outputs.len())));
        };
        let (from, to) = (self.file.tensor(self.tensor)?, self.file.tensor(output)?);
        match operator.code {
            schema::FULLY_CONNECTED => {
                let layer = self.dense(operator, &from, &to, &refuse)?;
                self.graph.push(layer);
            }
            // A batch of vectors with another shape is the same vector.
            schema::RESHAPE => {
                if values(&from)? != values(&to)? {
                    return Err(refuse("it changes the number of values".to_owned()));
                }
            }
            schema::QUANTIZE if from.kind == TensorType::Float32 && to.kind == TensorType::Int8 => {
                self.graph.push(Op::Quantize(quantization(&to)?));
            }
            schema::QUANTIZE if from.kind == TensorType::Int8 && to.kind == TensorType::Int8 => {
                self.graph.push(Int8Layer::new(Int8Operation::Requantize, quantization(&to)?));
            }
            schema::DEQUANTIZE if from.kind == TensorType::Int8 && to.kind == TensorType::Float32 => {
                self.graph.push(Op::Dequantize);
            }
            _ => {
                return Err(refuse(
                    "only FULLY_CONNECTED of int8, RESHAPE, and QUANTIZE and DEQUANTIZE between f32 and int8 are read"
                        .to_owned(),
                ));
            }
        }
        self.tensor = output;
        Ok(())
    }

    fn dense(
        &mut self,
        operator: &Operator<'_>,
        from: &Tensor<'_>,
        to: &Tensor<'_>,
        refuse: &dyn Fn(String) -> TfliteError,
    ) -> Result<Int8Layer, TfliteError> {
        let (inputs, outputs) = (values(from)?, values(to)?);
        let Some(&Some(weights)) = operator.inputs.get(1) else {
            return Err(refuse("it has no weights".to_owned()));
        };
        let weights = self.file.tensor(weights)?;
        let options = operator.fully_connected()?;
        if options.weights_format != 0 {
            return Err(refuse("its weights are shuffled".to_owned()));
        }
        for tensor in [from, to, &weights] {
            if tensor.kind != TensorType::Int8 {
                return Err(refuse(format!("tensor `{}` is {}, not int8", tensor.name(), tensor.kind)));
            }
        }
        if weights.shape != [outputs, inputs] {
            let (found, name) = (&weights.shape, weights.name());
            return Err(refuse(format!("weights `{name}` of shape {found:?}, expected [{outputs}, {inputs}]")));
        }
        let zero = weights.zero_points.iter().any(|&zero_point| zero_point != 0);
        if zero || ![1, outputs].contains(&weights.scales.len()) || weights.scales.len() > 1 && weights.axis != 0 {
            return Err(refuse(format!(
                "weights `{}`: expected zero points of 0 and one scale, or one for each output",
                weights.name()
            )));
        }
        self.unused = outputs
            .checked_mul(inputs)
            .and_then(|count| self.unused.checked_sub(count))
            .ok_or_else(|| refuse("it has more weights than the file, or shares another's".to_owned()))?;
        let bias = match operator.inputs.get(2) {
            Some(&Some(bias)) => self.file.tensor(bias)?.integers(outputs)?,
            _ => vec![0; outputs],
        };
        let (input, output) = (quantization(from)?, quantization(to)?);
        let factors = factors(input.scale(), &weights.scales, output.scale());
        let dense = Dense {
            inputs,
            output: Shape::vector(outputs),
            weights: weights.bytes(outputs.saturating_mul(inputs))?,
            bias,
            activation: Activation::Identity,
        };
        let clamp = clamp(options.activation, output)
            .ok_or_else(|| refuse(format!("a fused activation {}", options.activation.0)))?;
        Ok(Int8Layer { operation: Int8Operation::Dense(dense, factors), output, clamp })
    }
}

/// The factors of the sums, computed as in TFLite: for one scale, the product of the scales in
/// single precision; for one scale per channel, in double precision.
fn factors(input: f32, weights: &[f32], output: f32) -> Vec<f64> {
    match weights {
        [scale] => vec![f64::from(input * scale) / f64::from(output)],
        scales => scales.iter().map(|&scale| f64::from(input) * f64::from(scale) / f64::from(output)).collect(),
    }
}

/// The minimum and the maximum value with a fused activation.
fn clamp(activation: FusedActivation, output: Quantization) -> Option<[i8; 2]> {
    let [least, greatest] = [i8::MIN, i8::MAX];
    Some(match activation {
        FusedActivation::NONE => [least, greatest],
        FusedActivation::RELU => [output.quantize(0.0), greatest],
        FusedActivation::RELU_N1_TO_1 => [output.quantize(-1.0), output.quantize(1.0)],
        FusedActivation::RELU6 => [output.quantize(0.0), output.quantize(6.0)],
        _ => return None,
    })
}

/// The number of values of one sample.
fn values(tensor: &Tensor<'_>) -> Result<usize, TfliteError> {
    let Some((&batch, sample)) = tensor.shape.split_first() else {
        return Err(TfliteError::tensor(tensor, "it has no shape".to_owned()));
    };
    if batch != 1 {
        return Err(TfliteError::tensor(tensor, format!("a batch of {batch}, not 1")));
    }
    let count = sample.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
    match count {
        Some(count) if count > 0 => Ok(count),
        _ => Err(TfliteError::tensor(tensor, format!("its shape is {:?}", tensor.shape))),
    }
}

/// The scale and zero point of an activation.
fn quantization(tensor: &Tensor<'_>) -> Result<Quantization, TfliteError> {
    let (&[scale], &[zero_point]) = (tensor.scales.as_slice(), tensor.zero_points.as_slice()) else {
        return Err(TfliteError::tensor(tensor, "expected one scale and one zero point".to_owned()));
    };
    let zero_point = i8::try_from(zero_point);
    match zero_point.ok().and_then(|zero_point| Quantization::new(scale, zero_point).ok()) {
        Some(quantization) => Ok(quantization),
        None => Err(TfliteError::tensor(tensor, format!("its scale is {scale}; or its zero point is not of 8 bits"))),
    }
}
