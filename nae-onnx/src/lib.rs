//! onnx
