#!/usr/bin/env python3
"""Writes samples.i16 and log_mel.f32 beside this file: sound, and librosa's log-mel features of it.

    pip install librosa==0.11.0
    python3 nae-core/tests/audio/make_vectors.py

The features are computed as in MLPerf Tiny (`common.py` of its anomaly detection), from float32 samples as
`librosa.load` gives them.
"""
import sys
from pathlib import Path

import librosa
import numpy as np

RATE, SECONDS = 16000, 1.5


def sound():
    """A motor that speeds up, in noise; the last third second is silent, down to exact zeros."""
    random = np.random.default_rng(0)
    t = np.arange(int(RATE * SECONDS)) / RATE
    phase = 2 * np.pi * np.cumsum(90 + 60 * t) / RATE
    motor = sum(np.sin(k * phase + k) / k for k in range(1, 60))
    whistle = 0.05 * np.sin(2 * np.pi * 5300 * t)
    loudness = np.where(t < 1.0, 1.0, 10.0 ** (-14 * (t - 1.0)))
    mixed = loudness * (0.15 * motor + whistle + 0.02 * random.standard_normal(len(t)))
    return np.clip(np.round(32768 * mixed), -32768, 32767).astype("<i2")


def log_mel(samples):
    mel = librosa.feature.melspectrogram(y=samples, sr=RATE, n_fft=1024, hop_length=512, n_mels=128, power=2.0)
    return (20.0 / 2.0 * np.log10(mel + sys.float_info.epsilon)).T


basis = librosa.filters.mel(sr=RATE, n_fft=1024, n_mels=128)
assert not basis[:, [0, -1]].any(), "a filter holds 0 Hz or 8000 Hz"
folder = Path(__file__).parent
samples = sound()
values = samples.astype(np.float32) / 32768
single, double = log_mel(values), log_mel(values.astype(np.float64))
assert single.dtype == np.float32
# Without the frames that are partly padding.
single, double = single[1:-1], double[1:-1]
samples.tofile(folder / "samples.i16")
single.astype("<f4").tofile(folder / "log_mel.f32")
print(f"{len(single)} frames, {single.min():.1f} to {single.max():.1f} dB; librosa itself, float32 against float64:")
print(f"  {np.abs(single - double).max():.1e} dB at most")
