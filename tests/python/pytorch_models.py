#!/usr/bin/env python3
"""Exports autoencoders written as people write them with both of PyTorch's exporters, for
crates/nae-onnx/tests/pytorch.rs: tests/vectors/pytorch/NAME-old.onnx and NAME-new.onnx, and NAME.bin with samples, each the
float32 input followed by PyTorch's float32 output.

    pip install torch==2.15.0 onnx onnxscript
    python3 tests/python/pytorch_models.py
"""

import warnings
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

FOLDER = Path(__file__).resolve().parent.parent / "vectors" / "pytorch"


class Strided(nn.Module):
    """Strided convolutions, BatchNorm after and before activations, LeakyReLU, average pooling, normalize, view."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6), nn.LeakyReLU(0.1),
            nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.ReLU(), nn.BatchNorm2d(8), nn.AvgPool2d(2))
        self.to_latent, self.from_latent = nn.Linear(32, 5), nn.Linear(5, 32)
        self.up = nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.nearest = nn.Upsample(scale_factor=2, mode="nearest")
        self.bilinear = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.out = nn.Conv2d(6, 1, 3, padding=1)

    def forward(self, x):
        z = F.normalize(self.to_latent(torch.flatten(self.encoder(x), 1)), dim=1)
        y = F.leaky_relu(self.from_latent(z), 0.2).view(-1, 8, 2, 2)
        y = F.relu(self.norm(self.up(y)))
        return torch.sigmoid(self.out(self.bilinear(self.nearest(y))))


class Residual(nn.Module):
    """A sum and a product of two values, view by size, Unflatten, Upsample to a size with aligned corners."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.pool = nn.BatchNorm2d(4), nn.MaxPool2d(2)
        self.to_latent, self.latent_norm, self.from_latent = nn.Linear(256, 8), nn.BatchNorm1d(8), nn.Linear(8, 64)
        self.unflatten = nn.Unflatten(1, (4, 4, 4))
        self.up = nn.Upsample(size=(16, 16), mode="bilinear", align_corners=True)
        self.out = nn.Conv2d(4, 1, 1)

    def forward(self, x):
        h = F.relu(self.a(x))
        h = F.relu(self.norm(self.b(h)) + h) * torch.sigmoid(h)
        h = self.pool(h)
        z = self.latent_norm(self.to_latent(h.view(h.size(0), -1)))
        return torch.sigmoid(self.out(self.up(self.unflatten(F.relu(self.from_latent(z))))))


class Perceptron(nn.Module):
    """Images flattened and brought back, Dropout, BatchNorm1d, Identity."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(256, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 4),
            nn.Identity(), nn.Linear(4, 12), nn.LeakyReLU(0.2), nn.Linear(12, 256), nn.Sigmoid())

    def forward(self, x):
        return self.layers(x).reshape(x.shape)


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(3)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, kind in (("strided", Strided), ("residual", Residual), ("perceptron", Perceptron)):
        model = kind()
        for module in model.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.running_mean.uniform_(-0.3, 0.3)
                module.running_var.uniform_(0.5, 2)
                module.weight.data.uniform_(0.5, 1.5)
                module.bias.data.uniform_(-0.3, 0.3)
        model.eval()
        x = torch.rand(4, 1, 16, 16)
        names = {"input_names": ["x"], "output_names": ["y"]}
        torch.onnx.export(model, (x[:2],), str(FOLDER / f"{name}-old.onnx"), dynamo=False,
                          dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, **names)
        torch.onnx.export(model, (x[:2],), str(FOLDER / f"{name}-new.onnx"), dynamo=True, external_data=False,
                          dynamic_shapes={"x": {0: torch.export.Dim("n")}}, **names)
        with torch.no_grad():
            y = model(x)
        samples = torch.cat([x.flatten(1), y.flatten(1)], 1)
        (FOLDER / f"{name}.bin").write_bytes(samples.numpy().tobytes())


if __name__ == "__main__":
    main()
