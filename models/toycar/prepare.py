#!/usr/bin/env python3
"""ToyCar's log-mel features, divided by clips, as nae-train and the firmware take them.

    python3 models/toycar/prepare.py MLPERF_TINY_AD01 OUT

MLPERF_TINY_AD01 is the folder with `toycar_logmel_*.npz`. Writes into OUT:

    train.csv         every fourth window of 360 normal clips, 640 columns
    calibration.csv   the same of 40 other normal clips
    preset.toml       preset.toml of this folder with the columns
    test.f32          all frames of the 248 test clips (140 normal, 108 anomalous): clip by clip, frame by frame, 128
                      32-bit floats each, little-endian, in decibels
    test.labels       one byte a clip: 1 for an anomaly

The division is self-made: all of these clips are from the test part of DCASE 2020. The 248 are MLPerf Tiny's, and none of
them is trained or calibrated on. Of the 400 others, every tenth of each machine is for calibration.
"""
import sys
from pathlib import Path

import numpy as np

FRAMES = 5  # of a window
STEP = 4  # frames between two windows of a table
MEAN, DEVIATION, SPAN = -30.0, 10.0, 5.0  # -80 dB to 20 dB


def windows(clips, step):
    """(clips, frames, bands) to (windows, FRAMES * bands), the earliest frame first."""
    starts = range(0, clips.shape[1] - FRAMES + 1, step)
    return np.concatenate([clips[:, s : s + FRAMES].reshape(len(clips), -1) for s in starts])


def main(source, out):
    others = np.load(source / "toycar_logmel_normal_extra400_float16.npz")
    test = np.load(source / "toycar_logmel_eval248_float32.npz")
    assert not set(others["names"]) & set(test["names"]), "a clip is in both parts"
    clips = others["x"].astype(np.float32)
    place = np.zeros(len(clips), int)
    for machine in np.unique(others["machine_id"]):
        mine = np.flatnonzero(others["machine_id"] == machine)
        place[mine] = np.arange(len(mine))
    calibration = place % 10 == 9

    out.mkdir(parents=True, exist_ok=True)
    for name, part in [("train", clips[~calibration]), ("calibration", clips[calibration])]:
        table = windows(part, STEP)
        np.savetxt(out / f"{name}.csv", table, fmt="%.2f", delimiter=",")
        print(f"{name}.csv: {len(part)} clips, {len(table)} windows")
    columns = "".join(
        f'  {{ name = "column {n + 1}", mean = {MEAN}, deviation = {DEVIATION}, span = {SPAN} }},\n'
        for n in range(FRAMES * clips.shape[2])
    )
    preset = (Path(__file__).parent / "preset.toml").read_text()
    (out / "preset.toml").write_text(f"{preset}columns = [\n{columns}]\n")
    test["x"].astype("<f4").tofile(out / "test.f32")
    test["y"].astype(np.uint8).tofile(out / "test.labels")
    print(f"test.f32: {len(test['y'])} clips, {int(test['y'].sum())} anomalous")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
