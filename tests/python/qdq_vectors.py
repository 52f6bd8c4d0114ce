#!/usr/bin/env python3
"""Quantises the digits model with ONNX Runtime's static quantiser, for crates/nae-onnx/tests/qdq.rs.

    pip install onnxruntime==1.31.1 onnx==1.23.2
    python3 tests/python/qdq_vectors.py

Writes into tests/vectors/qdq: digits-int8.onnx (int8, weights per channel), digits-uint8.onnx (uint8 activations, one scale
for all weights), and what ONNX Runtime gives for four images: image, reconstruction, in turn, 32-bit floats.
"""

from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "vectors" / "qdq"
MODEL = ROOT.parent / "models" / "digits" / "digits.onnx"


class Images(CalibrationDataReader):
    def __init__(self, images):
        self.images = iter(images)

    def get_next(self):
        image = next(self.images, None)
        return None if image is None else {"image": image[None]}


def main():
    images = np.load(ROOT / "vectors" / "images.npy").astype(np.float32)
    FOLDER.mkdir(exist_ok=True)
    plain = ort.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    for name, kind, per_channel in [("int8", QuantType.QInt8, True), ("uint8", QuantType.QUInt8, False)]:
        path = FOLDER / f"digits-{name}.onnx"
        quantize_static(
            MODEL,
            path,
            Images(images),
            quant_format=QuantFormat.QDQ,
            per_channel=per_channel,
            activation_type=kind,
            weight_type=QuantType.QInt8,
        )
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        samples, errors = [], []
        for image in images[:4]:
            run = lambda s: s.run(["reconstruction"], {"image": image[None]})[0][0]
            samples += [image, run(session)]
            errors.append(np.abs(run(session) - run(plain)).max())
        np.stack(samples).astype("<f4").tofile(FOLDER / f"digits-{name}.bin")
        print(f"{name}: {path.stat().st_size} bytes; at most {max(errors):.3f} from the model before")


if __name__ == "__main__":
    main()
