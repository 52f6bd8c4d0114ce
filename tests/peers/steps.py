"""The steps training consists of, in PyTorch and in the engine, in turns on the same machine.

    cargo bench -p nae-train --bench steps --no-run      # prints the path of the program
    pip install -r tests/peers/requirements.txt
    python tests/peers/steps.py PROGRAM [--rounds 20] [--threads 2] [--contiguous]
    python tests/peers/steps.py PROGRAM --device wgpu --torch-device cuda

Conv28 at full width, batch 128: a visible step (energies of images and their gradient with respect to them, weights
frozen), a latent step (the same for latents, through the decoder), ten visible steps as the paper's chain makes them
(gradient clipped, noise, clamped to 0 and 1), and an update (gradients of all weights for a batch of data and one of
negative samples, and Adam). Each round runs one of ours, then one of PyTorch's. The table has the least wall and
processor time of each, and their ratios, ours to PyTorch's: the machine may be busy, single times say nothing. PyTorch
gets channels_last, its faster layout, unless --contiguous is given.
"""

import argparse
import os
import subprocess
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program", help="the built benchmark `steps`")
parser.add_argument("--rounds", type=int, default=20)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--contiguous", action="store_true")
parser.add_argument("--device", default="cpu", help="ours, as `nae-train devices` lists them")
parser.add_argument("--torch-device", default="cpu")
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)

import torch  # noqa: E402  (reads the variable above)
from torch import nn  # noqa: E402

torch.set_num_threads(arguments.threads)
torch.manual_seed(0)
BATCH = 128
LAYOUT = torch.contiguous_format if arguments.contiguous else torch.channels_last


def enlarge():
    return nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)


encoder = nn.Sequential(
    nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(128, 1024, 4), nn.ReLU(), nn.Conv2d(1024, 32, 1),
)
decoder = nn.Sequential(
    nn.ConvTranspose2d(32, 128, 4), nn.ReLU(), enlarge(),
    nn.ConvTranspose2d(128, 64, 3), nn.ReLU(), nn.ConvTranspose2d(64, 64, 3), nn.ReLU(), enlarge(),
    nn.ConvTranspose2d(64, 32, 3), nn.ReLU(), nn.ConvTranspose2d(32, 1, 3), nn.Sigmoid(),
)
device = torch.device(arguments.torch_device)
model = nn.ModuleList([encoder, decoder]).to(device=device, memory_format=LAYOUT)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
images = torch.rand(BATCH, 1, 28, 28, device=device).contiguous(memory_format=LAYOUT)
latents = nn.functional.normalize(torch.randn(BATCH, 32, 1, 1, device=device), dim=1)


def energy(x):
    latent = nn.functional.normalize(encoder(x), dim=1)
    return (x - decoder(latent)).square().flatten(1).mean(1)


def input_gradient(function, value):
    value = value.clone().requires_grad_(True)
    energies = function(value)
    return energies, torch.autograd.grad(energies.sum(), value)


def visible():
    input_gradient(energy, images)


def latent():
    input_gradient(lambda z: energy(decoder(z)), latents)


def chain():
    state = images
    for t in range(10):
        (gradient,) = input_gradient(energy, state)[1]
        noise = torch.randn_like(state) * (0.05 / (1 + t))
        state = (state - 10.0 * gradient.clamp(-0.01, 0.01) + noise).clamp(0, 1)


def update():
    optimizer.zero_grad()
    negative, positive = energy(images * 0.5), energy(images)
    (positive.mean() - negative.mean() + negative.square().mean()).backward()
    optimizer.step()


def timed(step):
    model.requires_grad_(step is update)
    wall, processor = time.perf_counter(), time.process_time()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - wall, time.process_time() - processor


command = [arguments.program, "--serve", "conv28", "--threads", str(arguments.threads)]
command += ["--device", arguments.device]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as engine:

    def ask(name):
        print(name, file=engine.stdin, flush=True)
        return tuple(float(part) for part in engine.stdout.readline().split())

    print(f"Conv28, batch {BATCH}, {arguments.threads} threads, PyTorch {torch.__version__} {LAYOUT}, ms")
    print(f"ours on {arguments.device}, PyTorch on {device}")
    print(f"{'':8} {'ours: wall':>11} {'cpu':>8} {'PyTorch: wall':>14} {'cpu':>8} {'ratio: wall':>12} {'cpu':>6}")
    for step in (visible, latent, chain, update):
        name = step.__name__
        ask(name), timed(step)
        ours, theirs = zip(*[(ask(name), timed(step)) for _ in range(arguments.rounds)])
        (ow, oc), (tw, tc) = ([1e3 * min(times) for times in zip(*side)] for side in (ours, theirs))
        print(f"{name:8} {ow:11.1f} {oc:8.1f} {tw:14.1f} {tc:8.1f} {ow / tw:12.2f} {oc / tc:6.2f}")
    engine.stdin.close()
