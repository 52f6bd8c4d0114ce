#!/usr/bin/env python3
"""Runs single-operator int8 models through TFLite's built-in reference kernels and writes inputs,
parameters and outputs to vectors.txt, which the test int8_tflite reads.

    pip install ai-edge-litert==2.3.0
    python3 nae-core/tests/int8/make_vectors.py nae-core/tests/int8/vectors.txt
"""

import sys

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType

rng = np.random.default_rng(6)


def tensor(name, shape, kind, buffer, scale=None, zero=None, axis=0):
    t = s.TensorT()
    t.name, t.shape, t.type, t.buffer = name, list(shape), kind, buffer
    if scale is not None:
        q = s.QuantizationParametersT()
        q.scale = np.atleast_1d(np.asarray(scale, np.float32))
        q.zeroPoint = np.atleast_1d(np.asarray(zero, np.int64))
        q.quantizedDimension = axis
        t.quantization = q
    return t


class Model:
    """One operator. Inputs of the graph are float-free int8 tensors."""

    def __init__(self):
        self.m = s.ModelT()
        self.m.version = 3
        self.m.buffers = [s.BufferT()]
        self.g = s.SubGraphT()
        self.g.tensors, self.g.inputs = [], []

    def input(self, shape, scale, zero):
        self.g.tensors.append(tensor("x", shape, s.TensorType.INT8, 0, scale, zero))
        self.g.inputs.append(len(self.g.tensors) - 1)
        return len(self.g.tensors) - 1

    def constant(self, values, kind, scale=None, zero=None, axis=0):
        b = s.BufferT()
        b.data = np.frombuffer(values.tobytes(), np.uint8)
        self.m.buffers.append(b)
        self.g.tensors.append(tensor("c", values.shape, kind, len(self.m.buffers) - 1, scale, zero, axis))
        return len(self.g.tensors) - 1

    def run(self, code, options_type, options, inputs, out_shape, scale, zero, data, version=1, reference=True):
        self.g.tensors.append(tensor("y", out_shape, s.TensorType.INT8, 0, scale, zero))
        out = len(self.g.tensors) - 1
        c = s.OperatorCodeT()
        c.builtinCode, c.deprecatedBuiltinCode, c.version = code, min(code, 127), version
        self.m.operatorCodes = [c]
        op = s.OperatorT()
        op.opcodeIndex, op.inputs, op.outputs = 0, inputs, [out]
        op.builtinOptionsType, op.builtinOptions = options_type, options
        self.g.operators, self.g.outputs = [op], [out]
        self.m.subgraphs = [self.g]
        b = flatbuffers.Builder(1024)
        b.Finish(self.m.Pack(b), b"TFL3")
        kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        i = Interpreter(model_content=bytes(b.Output()), experimental_op_resolver_type=kind)
        i.allocate_tensors()
        for index, values in zip(self.g.inputs, data):
            i.set_tensor(index, values)
        i.invoke()
        return i.get_tensor(out)


def int8(*shape, low=-128):
    return rng.integers(low, 128, shape).astype(np.int8)


def numbers(values):
    return " ".join(str(v) for v in np.asarray(values).reshape(-1))


class File:
    """Lines `name value value …`; a case starts with `case OPERATOR` and ends with `end`."""

    def __init__(self):
        self.lines = []

    def case(self, operator, **fields):
        self.lines.append(f"case {operator}")
        for name, values in fields.items():
            values = np.asarray(values)
            if values.dtype.kind == "f":
                text = " ".join(repr(float(np.float32(v))) for v in values.reshape(-1))
            else:
                text = numbers(values)
            self.lines.append(f"{name} {text}")
        self.lines.append("end")


RELU = s.ActivationFunctionType.RELU
NONE = s.ActivationFunctionType.NONE
VALID, SAME = s.Padding.VALID, s.Padding.SAME


def scales(n, low=0.002, high=0.02):
    return rng.uniform(low, high, n).astype(np.float32)


def conv(file, shape, outputs, kernel, stride, padding, activation, xs, xz, ys, yz):
    h, w, c = shape
    x = int8(1, h, w, c)
    weights, ws = int8(outputs, *kernel, c, low=-127), scales(outputs)
    bias = rng.integers(-3000, 3000, outputs).astype(np.int32)
    out = [(n - k) // t + 1 if padding == VALID else -(-n // t) for n, k, t in zip((h, w), kernel, stride)]
    m = Model()
    i = m.input(x.shape, xs, xz)
    wi = m.constant(weights, s.TensorType.INT8, ws, [0] * outputs)
    bi = m.constant(bias, s.TensorType.INT32, xs * ws, [0] * outputs)
    o = s.Conv2DOptionsT()
    o.padding, o.strideH, o.strideW, o.fusedActivationFunction = padding, *stride, activation
    o.dilationHFactor = o.dilationWFactor = 1
    code, kind = s.BuiltinOperator.CONV_2D, s.BuiltinOptions.Conv2DOptions
    y = m.run(code, kind, o, [i, wi, bi], (1, *out, outputs), ys, yz, [x], version=3)
    before = [0, 0]
    if padding == SAME:
        before = [max((o - 1) * t + k - n, 0) // 2 for o, t, k, n in zip(out, stride, kernel, (h, w))]
    file.case("conv2d", input=shape, output=[*out, outputs], kernel=kernel, stride=stride, padding=before,
              relu=[int(activation == RELU)], scale=[xs, ys], zero=[xz, yz], weight_scale=ws, weights=weights,
              bias=bias, x=x, y=y)


def conv_transpose(file, shape, outputs, kernel, stride, padding, xs, xz, ys, yz):
    h, w, c = shape
    x = int8(1, h, w, c)
    weights, ws = int8(outputs, *kernel, c, low=-127), scales(outputs)
    bias = rng.integers(-3000, 3000, outputs).astype(np.int32)
    out = [(n - 1) * t + k if padding == VALID else n * t for n, k, t in zip((h, w), kernel, stride)]
    m = Model()
    shape_index = m.constant(np.array([1, *out, outputs], np.int32), s.TensorType.INT32)
    wi = m.constant(weights, s.TensorType.INT8, ws, [0] * outputs)
    i = m.input(x.shape, xs, xz)
    bi = m.constant(bias, s.TensorType.INT32, xs * ws, [0] * outputs)
    o = s.TransposeConvOptionsT()
    o.padding, o.strideH, o.strideW = padding, *stride
    code, kind = s.BuiltinOperator.TRANSPOSE_CONV, s.BuiltinOptions.TransposeConvOptions
    y = m.run(code, kind, o, [shape_index, wi, i, bi], (1, *out, outputs), ys, yz, [x], version=3)
    before = [0, 0]
    if padding == SAME:
        before = [max((n - 1) * t + k - o, 0) // 2 for o, t, k, n in zip(out, stride, kernel, (h, w))]
    file.case("conv_transpose2d", input=shape, output=[*out, outputs], kernel=kernel, stride=stride, padding=before,
              relu=[0], scale=[xs, ys], zero=[xz, yz], weight_scale=ws, weights=weights, bias=bias, x=x, y=y)


def dense(file, inputs, outputs, activation, xs, xz, ws, ys, yz):
    x, weights = int8(1, inputs), int8(outputs, inputs, low=-127)
    bias = rng.integers(-2000, 2000, outputs).astype(np.int32)
    m = Model()
    i = m.input(x.shape, xs, xz)
    wi = m.constant(weights, s.TensorType.INT8, ws, 0)
    bi = m.constant(bias, s.TensorType.INT32, xs * ws, 0)
    o = s.FullyConnectedOptionsT()
    o.fusedActivationFunction = activation
    code, kind = s.BuiltinOperator.FULLY_CONNECTED, s.BuiltinOptions.FullyConnectedOptions
    y = m.run(code, kind, o, [i, wi, bi], (1, outputs), ys, yz, [x], version=4)
    file.case("dense", relu=[int(activation == RELU)], scale=[xs, ys], zero=[xz, yz],
              weight_scale=np.full(outputs, ws, np.float32), weights=weights, bias=bias, x=x, y=y)


def pool(file, average, shape, kernel, stride, padding):
    h, w, c = shape
    x = int8(1, h, w, c)
    out = [(n - k) // t + 1 if padding == VALID else -(-n // t) for n, k, t in zip((h, w), kernel, stride)]
    m = Model()
    i = m.input(x.shape, 0.1, 5)
    o = s.Pool2DOptionsT()
    o.padding, o.strideH, o.strideW, o.filterHeight, o.filterWidth = padding, *stride, *kernel
    code = s.BuiltinOperator.AVERAGE_POOL_2D if average else s.BuiltinOperator.MAX_POOL_2D
    y = m.run(code, s.BuiltinOptions.Pool2DOptions, o, [i], (1, *out, c), 0.1, 5, [x], version=2)
    before = [0, 0]
    if padding == SAME:
        before = [max((o - 1) * t + k - n, 0) // 2 for o, t, k, n in zip(out, stride, kernel, (h, w))]
    file.case("average_pool2d" if average else "max_pool2d", input=shape, output=[*out, c], kernel=kernel,
              stride=stride, padding=before, x=x, y=y)


def resize(file, shape, out, bilinear, half_pixel):
    h, w, c = shape
    x = int8(1, h, w, c)
    m = Model()
    i = m.input(x.shape, 0.1, 5)
    size = m.constant(np.array(out, np.int32), s.TensorType.INT32)
    if bilinear:
        o = s.ResizeBilinearOptionsT()
        o.alignCorners, o.halfPixelCenters = not half_pixel, half_pixel
        code, kind = s.BuiltinOperator.RESIZE_BILINEAR, s.BuiltinOptions.ResizeBilinearOptions
    else:
        o = s.ResizeNearestNeighborOptionsT()
        code, kind = s.BuiltinOperator.RESIZE_NEAREST_NEIGHBOR, s.BuiltinOptions.ResizeNearestNeighborOptions
    y = m.run(code, kind, o, [i, size], (1, *out, c), 0.1, 5, [x], version=3)
    file.case("bilinear" if bilinear else "nearest", input=shape, output=[*out, c], half_pixel=[int(half_pixel)], x=x, y=y)


def binary(file, multiply, scale, zero):
    a, b = int8(1, 300), int8(1, 300)
    m = Model()
    ia, ib = m.input(a.shape, scale[0], zero[0]), m.input(b.shape, scale[1], zero[1])
    if multiply:
        o, code, kind = s.MulOptionsT(), s.BuiltinOperator.MUL, s.BuiltinOptions.MulOptions
    else:
        o, code, kind = s.AddOptionsT(), s.BuiltinOperator.ADD, s.BuiltinOptions.AddOptions
        o.potScaleInt16 = False
    y = m.run(code, kind, o, [ia, ib], a.shape, scale[2], zero[2], [a, b], version=2)
    file.case("multiply" if multiply else "add", scale=np.array(scale), zero=zero, a=a, b=b, y=y)


def unary(file, operator, scale, zero, slope=0.0):
    x = np.arange(-128, 128).astype(np.int8).reshape(1, 256)
    if operator == "l2_normalize":
        x = int8(1, 64)
    m = Model()
    i = m.input(x.shape, scale[0], zero[0])
    if operator == "leaky_relu":
        o, code, kind = s.LeakyReluOptionsT(), s.BuiltinOperator.LEAKY_RELU, s.BuiltinOptions.LeakyReluOptions
        o.alpha = slope
    elif operator == "l2_normalize":
        o, code, kind = s.L2NormOptionsT(), s.BuiltinOperator.L2_NORMALIZATION, s.BuiltinOptions.L2NormOptions
    elif operator == "sigmoid":
        o, code, kind = None, s.BuiltinOperator.LOGISTIC, s.BuiltinOptions.NONE
    else:
        o, code, kind = s.QuantizeOptionsT(), s.BuiltinOperator.QUANTIZE, s.BuiltinOptions.QuantizeOptions
    y = m.run(code, kind, o, [i], x.shape, scale[1], zero[1], [x], version=2)
    file.case(operator, scale=np.array(scale), zero=zero, slope=np.array([slope], np.float32), x=x, y=y)


def main(path):
    f = File()
    conv(f, (6, 7, 4), 5, (3, 3), (1, 1), VALID, NONE, 0.02, -5, 0.3, 7)
    conv(f, (7, 6, 8), 6, (3, 3), (1, 1), SAME, RELU, 0.02, 3, 0.2, -128)
    conv(f, (9, 8, 3), 4, (3, 2), (2, 2), SAME, NONE, 0.03, -128, 0.4, 11)
    conv(f, (8, 8, 1), 7, (3, 3), (1, 1), VALID, RELU, 0.004, -128, 0.05, -20)
    conv(f, (4, 4, 12), 3, (4, 4), (1, 1), VALID, NONE, 0.02, 9, 0.15, 0)
    conv(f, (5, 5, 2), 2, (1, 1), (2, 1), VALID, NONE, 0.02, 0, 0.0009, -3)
    conv_transpose(f, (3, 4, 4), 5, (3, 3), (1, 1), VALID, 0.02, -5, 0.2, 7)
    conv_transpose(f, (3, 3, 8), 4, (3, 3), (2, 2), VALID, 0.02, 4, 0.2, -7)
    conv_transpose(f, (4, 3, 3), 3, (3, 3), (2, 2), SAME, 0.02, 4, 0.1, -7)
    conv_transpose(f, (3, 2, 4), 2, (4, 4), (2, 2), SAME, 0.02, 4, 0.1, -7)
    conv_transpose(f, (1, 1, 8), 6, (4, 4), (1, 1), VALID, 0.02, -128, 0.2, 0)
    conv_transpose(f, (2, 3, 4), 3, (2, 3), (3, 2), VALID, 0.02, 1, 0.2, 0)
    dense(f, 64, 33, NONE, 0.05, -7, 0.01, 0.25, 3)
    dense(f, 30, 16, RELU, 0.05, 12, 0.01, 0.07, -128)
    dense(f, 9, 4, NONE, 0.05, 12, 0.01, 0.0007, -1)
    for average in (False, True):
        pool(f, average, (6, 7, 5), (2, 2), (2, 2), VALID)
        pool(f, average, (7, 7, 3), (3, 3), (2, 2), SAME)
    for half_pixel in (False, True):
        resize(f, (4, 5, 3), (9, 8), True, half_pixel)
        resize(f, (7, 6, 2), (3, 4), True, half_pixel)
        resize(f, (3, 1, 1), (5, 4), True, half_pixel)
    resize(f, (4, 5, 3), (9, 10), False, False)
    resize(f, (7, 6, 2), (3, 4), False, False)
    binary(f, False, (0.02, 0.035, 0.06), (3, -17, 5))
    binary(f, False, (0.5, 0.0035, 0.21), (-128, 100, 5))
    binary(f, True, (0.02, 0.035, 0.06), (3, -17, 5))
    binary(f, True, (0.1, 0.3, 0.5), (-128, 127, 5))
    unary(f, "leaky_relu", (0.02, 0.017), (3, -60), 0.1)
    unary(f, "leaky_relu", (0.05, 0.05), (-20, -20), 0.01)
    unary(f, "requantize", (0.02, 0.047), (3, -60))
    unary(f, "requantize", (0.02, 0.0047), (-100, 60))
    unary(f, "sigmoid", (0.05, 1 / 256), (4, -128))
    for zero in (0, -128, 40):
        unary(f, "l2_normalize", (0.02, 1 / 128), (zero, 0))
    with open(path, "w", encoding="ascii") as out:
        out.write("\n".join(f.lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
