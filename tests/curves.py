# /// script
# dependencies = ["matplotlib==3.10.8"]
# ///
"""AUROC of outliers along training, as a picture, of looks that `tests/lab.sh collect` has put into models/results/lab.

    uv run tests/curves.py --set "digit 9 (held out)" -o nine.svg NAME/CELL/SEED[=LABEL] ...

A curve is a model: `NAME.jsonl`, a cell in it, a seed. Looks are at 1,000 images a set.
"""
import argparse
import json
import pathlib

import matplotlib

matplotlib.use("svg")
# The same bytes again from the same looks.
matplotlib.rcParams.update({"svg.hashsalt": "nae", "font.size": 9})
import matplotlib.pyplot as plt

LAB = pathlib.Path(__file__).parents[1] / "models" / "results" / "lab"


def looks(curve, outliers):
    """Updates and AUROC of a model, by its looks."""
    name, cell, seed = curve.split("/")
    lines = map(json.loads, (LAB / f"{name}.jsonl").read_text().splitlines())
    found = [(look["update"], look["auroc"][outliers]) for look in lines if (look["cell"], str(look["seed"])) == (cell, seed)]
    if not found:
        raise SystemExit(f"{LAB / name}.jsonl: no look of the cell {cell} and the seed {seed}")
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves", nargs="+", metavar="NAME/CELL/SEED[=LABEL]")
    parser.add_argument("--set", required=True, help="the set of outliers, as the looks name it")
    parser.add_argument("--level", metavar="AUROC=LABEL", action="append", default=[], help="a dashed line")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.svg")
    args = parser.parse_args()
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for curve in args.curves:
        curve, _, label = curve.partition("=")
        axes.plot(*zip(*looks(curve, args.set)), linewidth=1.2, label=label or curve)
    for level in args.level:
        at, _, label = level.partition("=")
        axes.axhline(float(at), color="black", linestyle="--", linewidth=0.8, label=label)
    axes.set(xlabel="updates of NAE training", ylabel=f"AUROC of {args.set}", xlim=0)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(args.output, metadata={"Date": None, "Creator": None})


main()
