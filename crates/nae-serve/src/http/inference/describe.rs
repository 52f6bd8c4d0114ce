//! Descriptions of the service and its model: the protocol's metadata, and Triton's model configuration.

use nae_core::Shape;
use serde_json::{Value, json as value};

use super::super::super::model::Model;
use super::outputs::Output;

pub(super) fn server() -> Value {
    value!({
        "name": "nae-infer",
        "version": env!("CARGO_PKG_VERSION"),
        "extensions": ["binary_tensor_data", "model_configuration"],
    })
}

/// The protocol's metadata. The client chooses the number of images in a request: −1.
pub(super) fn metadata(name: &str, model: &Model) -> Value {
    let Shape { channels, height, width } = model.detector.contract().input;
    let output = |o: Output| value!({"name": o.name(), "datatype": o.datatype(), "shape": [-1]});
    value!({
        "name": name,
        "versions": [model.digest],
        "platform": "onnx",
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, channels, height, width]}],
        "outputs": Output::ALL.map(output),
    })
}

/// Triton's model configuration. A `max_batch_size` of 0 is no limit: it means that the shapes contain the number
/// of images. Otherwise, Triton would add a second dimension to every output.
pub(super) fn config(name: &str, model: &Model) -> Value {
    let Shape { channels, height, width } = model.detector.contract().input;
    let output = |o: Output| value!({"name": o.name(), "data_type": format!("TYPE_{}", o.datatype()), "dims": [-1]});
    value!({
        "name": name,
        "platform": "onnx",
        "max_batch_size": 0,
        "input": [{"name": "image", "data_type": "TYPE_FP32", "dims": [-1, channels, height, width]}],
        "output": Output::ALL.map(output),
    })
}
