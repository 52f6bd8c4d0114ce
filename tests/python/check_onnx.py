#!/usr/bin/env python3
"""Checks an exported model with the reference implementations of ONNX.

    check_onnx.py MODEL.onnx [IMAGES.npy ENERGIES.npy]

- onnx.checker with full_check, and strict shape inference;
- a dynamic batch: ONNX Runtime gives the same energies one by one and all at once;
- with IMAGES (float32 [N,C,H,W]) and ENERGIES (float32 [N]): ONNX Runtime's energies equal them
  within 1e-5 relative + 1e-7 absolute;
- the `energy` output is what its metadata says of `image` and `reconstruction`.

Exit status 0 when all holds. Needs the packages onnx, onnxruntime and numpy.
"""
import sys

import numpy as np
import onnx
import onnxruntime

RELATIVE, ABSOLUTE = 1e-5, 1e-7


def compare(what, found, expected):
    """Returns the number of values out of bounds, and says how far apart the two are."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        print(f"{what}: shape {found.shape}, expected {expected.shape}")
        return 1
    far = ~(np.abs(found - expected) <= RELATIVE * np.abs(expected) + ABSOLUTE)
    worst = float(np.max(np.abs(found - expected) / (np.abs(expected) + 1e-30), initial=0))
    print(f"{what}: {found.size} values, largest relative difference {worst:.2e}, out of bounds {int(far.sum())}")
    return int(far.sum())


def main(arguments):
    if len(arguments) not in (1, 3):
        sys.exit(__doc__)
    model = onnx.load(arguments[0])
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    print("onnx.checker: full check passed")

    metadata = {entry.key: entry.value for entry in model.metadata_props}
    session = onnxruntime.InferenceSession(arguments[0], providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    if not isinstance(shape[0], str):
        print(f"the batch is fixed: {shape}")
        return 1
    if len(arguments) == 3:
        images, expected = np.load(arguments[1]), np.load(arguments[2])
    else:
        images, expected = np.random.default_rng(0).random([7] + shape[1:], dtype=np.float32), None

    names = [output.name for output in session.get_outputs()]
    together = dict(zip(names, session.run(names, {session.get_inputs()[0].name: images})))
    bad = 0
    if "energy" in names:
        one_by_one = [session.run(["energy"], {session.get_inputs()[0].name: image[None]})[0][0] for image in images]
        bad += compare("one by one against all at once", one_by_one, together["energy"])
        difference = images.astype(np.float64) - together["reconstruction"]
        kind = metadata.get("nae.energy", "squared-l2")
        said = {"squared-l2": difference**2, "l1": np.abs(difference)}[kind].reshape(len(images), -1).mean(1)
        bad += compare(f"the energy node against {kind}", together["energy"], said)
        if expected is not None:
            bad += compare("ONNX Runtime against the given energies", together["energy"], expected)
    elif expected is not None:
        print("the model has no `energy` output to compare")
        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
