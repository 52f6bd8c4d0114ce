#!/usr/bin/env python3
"""Runs dense int8 models through TFLite's built-in reference kernels and writes what they give, for
crates/nae-onnx/tests/tflite.rs.

    pip install ai-edge-litert==2.3.0
    python3 tests/python/tflite_vectors.py [ad01_int8.tflite toycar_logmel_eval248_float32.npz]

Writes tests/vectors/tflite/dense.tflite, a small model made here with every form that is read, and
dense.bin; with the MLPerf Tiny model and features also ad01.bin. A .bin file holds samples, each the
int8 input followed by the int8 output.
"""

import sys
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType

FOLDER = Path(__file__).resolve().parent.parent / "vectors" / "tflite"
rng = np.random.default_rng(6)


class Builder:
    def __init__(self):
        self.model, self.graph = s.ModelT(), s.SubGraphT()
        self.model.version, self.model.buffers = 3, [s.BufferT()]
        self.model.operatorCodes, self.model.subgraphs = [], [self.graph]
        self.graph.tensors, self.graph.operators = [], []

    def tensor(self, name, shape, kind, scale, zero, data=None, axis=0):
        t = s.TensorT()
        t.name, t.shape, t.type, t.buffer = name, list(shape), kind, 0
        if data is not None:
            buffer = s.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            t.buffer = len(self.model.buffers) - 1
        q = s.QuantizationParametersT()
        q.scale = np.atleast_1d(np.asarray(scale, np.float32))
        q.zeroPoint = np.atleast_1d(np.asarray(zero, np.int64))
        q.quantizedDimension = axis
        t.quantization = q
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def operator(self, code, inputs, output, kind, options):
        c = s.OperatorCodeT()
        c.builtinCode, c.deprecatedBuiltinCode, c.version = code, min(code, 127), 4
        self.model.operatorCodes.append(c)
        op = s.OperatorT()
        op.opcodeIndex = len(self.model.operatorCodes) - 1
        op.inputs, op.outputs, op.builtinOptionsType, op.builtinOptions = inputs, [output], kind, options
        self.graph.operators.append(op)

    def dense(self, source, inputs, outputs, source_scale, scale, zero, activation, per_channel, bias=True):
        weights = rng.integers(-127, 128, (outputs, inputs), np.int8)
        weight_scale = rng.uniform(0.2, 1.0, outputs if per_channel else 1) / (90 * np.sqrt(inputs))
        name = f"dense{len(self.graph.operators)}"
        w = self.tensor(f"{name}/weights", weights.shape, s.TensorType.INT8, weight_scale,
                        np.zeros(len(weight_scale)), weights)
        operands = [source, w]
        if bias:
            values = rng.integers(-4000, 4000, outputs, np.int32)
            operands.append(self.tensor(f"{name}/bias", [outputs], s.TensorType.INT32,
                                        source_scale * weight_scale, np.zeros(len(weight_scale)), values))
        else:
            operands.append(-1)
        target = self.tensor(name, [1, outputs], s.TensorType.INT8, scale, zero)
        options = s.FullyConnectedOptionsT()
        options.fusedActivationFunction = activation
        self.operator(s.BuiltinOperator.FULLY_CONNECTED, operands, target,
                      s.BuiltinOptions.FullyConnectedOptions, options)
        return target

    def finish(self, source, target):
        self.graph.inputs, self.graph.outputs = [source], [target]
        b = flatbuffers.Builder(1024)
        b.Finish(self.model.Pack(b), b"TFL3")
        return bytes(b.Output())


def small():
    """24 → 17 → 4 → 17 → 24, every fused activation that is read."""
    a = s.ActivationFunctionType
    b = Builder()
    x = b.tensor("input", [1, 24], s.TensorType.INT8, 0.031, 7)
    t = b.dense(x, 24, 17, 0.031, 0.021, -128, a.RELU, False)
    t = b.dense(t, 17, 4, 0.021, 0.017, 3, a.NONE, True)
    t = b.dense(t, 4, 17, 0.017, 0.03, -100, a.RELU6, True, bias=False)
    t = b.dense(t, 17, 17, 0.03, 0.011, 5, a.RELU_N1_TO_1, False)
    t = b.dense(t, 17, 24, 0.011, 0.029, -9, a.NONE, False)
    return b.finish(x, t)


def run(model, inputs):
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    samples = b""
    for values in inputs:
        interpreter.set_tensor(source["index"], values.reshape(source["shape"]))
        interpreter.invoke()
        samples += values.tobytes() + interpreter.get_tensor(target["index"]).tobytes()
    return samples


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    model = small()
    (FOLDER / "dense.tflite").write_bytes(model)
    (FOLDER / "dense.bin").write_bytes(run(model, rng.integers(-128, 128, (64, 24), np.int8)))
    if len(sys.argv) == 3:
        model = Path(sys.argv[1]).read_bytes()
        source = Interpreter(model_content=model).get_input_details()[0]
        scale, zero = source["quantization"]
        archive = np.load(sys.argv[2])
        features = next(archive[key] for key in archive.files if archive[key].ndim == 3)
        # One window of five frames from each of six clips, and two of noise.
        windows = [features[40 * clip, 30 : 35].reshape(-1) for clip in range(6)]
        inputs = [np.clip(np.round(w / scale) + zero, -128, 127).astype(np.int8) for w in windows]
        inputs += list(rng.integers(-128, 128, (2, 640), np.int8))
        (FOLDER / "ad01.bin").write_bytes(run(model, inputs))


if __name__ == "__main__":
    main()
