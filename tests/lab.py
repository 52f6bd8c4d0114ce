"""The work of tests/lab.sh: reads the queue, runs its experiments, and gathers what was found."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

QUEUE = Path("models/results/queue.toml")
RESULTS = Path("models/results/lab")
EXPERIMENTS = Path("crates/nae-lab/experiments")
LAB = Path(os.environ.get("LAB", "target/lab"))
# Seeds are how many, 0 to that less one, or a list of them.
KEYS = {"name": (str,), "settings": (str,), "like": (str,), "scale": (str,), "seeds": (int, list)}
NAMES = {str: "a text", int: "a number", list: "a list"}
# Without it, all cells of the settings.
OPTIONAL = {"cells": (list,)}


def queue():
    """The experiments of the queue; ends with what is wrong with it."""
    try:
        entries = tomllib.loads(QUEUE.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        sys.exit(f"{QUEUE}: {error}")
    unknown = set(entries) - {"experiment"}
    if unknown:
        sys.exit(f"{QUEUE}: expected [[experiment]], found {', '.join(sorted(unknown))}")
    names = set()
    for number, entry in enumerate(entries.get("experiment", []), 1):
        where = f"{QUEUE}, experiment {number}"
        known = KEYS | OPTIONAL
        # A mistyped key is also missing under its right name: say the former.
        for key in sorted(set(entry) - set(known)):
            sys.exit(f"{where}: there is no key `{key}`; known: {', '.join(known)}")
        for key in sorted(set(entry) | set(KEYS)):
            if type(entry.get(key)) not in known[key]:
                expected = " or ".join(NAMES[kind] for kind in known[key])
                found = repr(entry[key]) if key in entry else "no such key"
                sys.exit(f"{where}: expected `{key}` to be {expected}, found {found}")
        if isinstance(entry["seeds"], int):
            entry["seeds"] = list(range(entry["seeds"]))
        if not entry["seeds"] or not all(type(seed) is int and seed >= 0 for seed in entry["seeds"]):
            sys.exit(f"{where}: expected `seeds` to be whole numbers, one at least, found {entry['seeds']!r}")
        if entry["name"] in names or "/" in entry["name"] or entry["name"] in ("", ".", ".."):
            sys.exit(f"{where}: expected a name of its own, fit for a folder, found {entry['name']!r}")
        if not Path(entry["settings"]).is_file():
            sys.exit(f"{where}: {entry['settings']}: there is no such file")
        known = sorted(path.stem for path in EXPERIMENTS.glob("*.toml"))
        if entry["like"] not in known:
            sys.exit(f"{where}: there is no experiment {entry['like']!r} to be `like`; known: {', '.join(known)}")
        scales = settings_of(entry).get("scales", {})
        if entry["scale"] not in scales:
            sys.exit(f"{where}: {entry['settings']}: there is no scale {entry['scale']!r}; known: {', '.join(scales)}")
        cells = [cell["name"] for cell in cells_of(entry)]
        if entry.get("cells") == []:
            sys.exit(f"{where}: expected `cells` to name one at least, or no `cells` for all, found none")
        for cell in entry.get("cells", []):
            if cell not in cells:
                sys.exit(f"{where}: {entry['settings']}: there is no cell {cell!r}; known: {', '.join(cells)}")
        names.add(entry["name"])
        yield entry


def settings_of(entry):
    """The settings of an experiment."""
    try:
        return tomllib.loads(Path(entry["settings"]).read_text())
    except tomllib.TOMLDecodeError as error:
        sys.exit(f"{entry['settings']}: {error}")


def cells_of(entry):
    """The cells in the settings of an experiment."""
    return settings_of(entry).get("cells", [])


def lines(path):
    """The whole lines of a file of JSON lines."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def unfinished(entry, seed):
    """An experiment's cells that are wanted and not finished in models/results/lab for a seed, and those they start from."""
    found = lines(RESULTS / f"{entry['name']}.jsonl")
    finished = {look["cell"] for look in found if look["finished"] and look["seed"] == seed}
    # The program passes these over; with nothing else left it need not be started.
    finished |= {model["cell"] for model in lines(LAB / entry["name"] / "cells.jsonl") if model["seed"] == seed}
    starts = {cell["name"]: cell.get("pretrained") for cell in cells_of(entry)}
    # What others start from has no looks, and is wanted for them alone.
    ends = [name for name in starts if name not in starts.values() and name in entry.get("cells", starts)]
    left = [name for name in ends if name not in finished]
    wanted = {starts[cell] for cell in left} - {name for name in starts if is_trained(LAB / entry["name"] / f"{name}-0")}
    return [name for name in starts if name in left or name in wanted]


def is_trained(run):
    """Whether a folder has a model and no state to go on from: its training has ended, here or where it was carried from."""
    return (run / "checkpoint.safetensors").is_file() and not (run / "resume.bin").exists()


def work():
    """Runs the queue. An experiment that fails is left, with its other seeds, and the next one begun; a stop ends the queue."""
    stopped = []
    # Both are asked to stop; this one waits for the program to write its state.
    signal.signal(signal.SIGINT, lambda *_: stopped.append(True))
    failed = []
    for entry in list(queue()):
        for seed in entry["seeds"]:
            code = 0 if stopped else run(entry, seed)
            if stopped:
                sys.exit(f"{entry['name']}: stopped")
            if code:
                print(f"{entry['name']}, seed {seed}: ended with {code}", file=sys.stderr, flush=True)
                failed.append(f"{entry['name']}, seed {seed}")
                break
    if failed:
        sys.exit(f"failed: {'; '.join(failed)}")


def run(entry, seed):
    """Trains what a seed of an experiment lacks, and returns the program's status."""
    cells = unfinished(entry, seed)
    if not cells:
        return 0
    command = [LAB / "nae-train", "reproduce", entry["like"], "--settings", entry["settings"], "--scale", entry["scale"]]
    # With a comma at the end it is that seed, not how many.
    command += ["--seeds", f"{seed},", "--out", LAB / entry["name"], "--trace-outliers", "--quiet"]
    command += ["--cells", ",".join(cells)]
    print(f"{entry['name']}, seed {seed}", flush=True)
    # A caught signal is not inherited: the program catches it by itself.
    return subprocess.Popen(command).wait()


def collect():
    """A line a look of every model, finished or not, into models/results/lab/NAME.jsonl; of a method without looks, one line when it
    is finished, with the AUROC of every column of its table.

    A model of which that file has more than LAB, from another machine say, stays there as it is."""
    RESULTS.mkdir(exist_ok=True)
    for entry in queue():
        folder = LAB / entry["name"]
        done = {f"{model['cell']}-{model['seed']}": model for model in lines(folder / "cells.jsonl")}
        path = RESULTS / f"{entry['name']}.jsonl"
        models = {}
        for look in lines(path):
            models.setdefault((look["cell"], look["seed"]), []).append(look)
        for metrics in sorted(folder.glob("*/metrics.jsonl")):
            cell, seed = metrics.parent.name.rsplit("-", 1)
            looks = []
            auroc = {}
            for line in lines(metrics):
                if line.get("kind") == "outliers":
                    auroc[line["update"]] = line["auroc"]
            for line in lines(metrics):
                if line.get("kind") == "look":
                    look = {"cell": cell, "seed": int(seed), "update": line["update"], "finished": metrics.parent.name in done}
                    for key in ("processor_seconds", "positive_energy", "negative_energy", "validation_energy"):
                        if key in line:
                            look[key] = line[key]
                    looks.append(look | {"auroc": auroc.get(line["update"], {})})
            if not looks and metrics.parent.name in done:
                rows = done[metrics.parent.name]["auroc"]["rows"]
                auroc = {
                    row["outliers"]: {name: figures["auroc"]["value"] for name, figures in row["figures"].items()} for row in rows
                }
                looks = [{"cell": cell, "seed": int(seed), "update": 0, "finished": True, "auroc": auroc}]
            kept = models.get((cell, int(seed)), [])
            if looks and looks[-1]["update"] >= (kept[-1]["update"] if kept else 0):
                models[cell, int(seed)] = looks
        if models:
            looks = [look for model in sorted(models) for look in models[model]]
            path.write_text("".join(json.dumps(look, sort_keys=True) + "\n" for look in looks))
            print(f"{path}: {len(looks)} looks of {len(models)} models")


def status():
    for entry in queue():
        done = len(lines(LAB / entry["name"] / "cells.jsonl"))
        runs = sorted((LAB / entry["name"]).glob("*/resume.bin"))
        now = f", at {runs[-1].parent.name}" if runs else ""
        print(f"{entry['name']}: {done} models finished{now}")


if __name__ == "__main__":
    # Its output may go to a program that stops reading, such as `head`.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    commands = {"work": work, "collect": collect, "status": status, "check": lambda: list(queue())}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        print(f"usage: python3 tests/lab.py {'|'.join(commands)}", file=sys.stderr)
        sys.exit(2)
    commands[sys.argv[1]]()
