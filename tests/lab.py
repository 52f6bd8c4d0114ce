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
LAB = Path(os.environ.get("LAB", "target/lab"))
KEYS = {"name": str, "settings": str, "like": str, "scale": str, "seeds": int}


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
        for key in sorted(set(entry) | set(KEYS)):
            if key not in KEYS:
                sys.exit(f"{where}: there is no key `{key}`; known: {', '.join(KEYS)}")
            if not isinstance(entry.get(key), KEYS[key]):
                sys.exit(f"{where}: expected `{key}` to be a {KEYS[key].__name__}, found {entry.get(key)!r}")
        if entry["name"] in names or "/" in entry["name"]:
            sys.exit(f"{where}: expected a name of its own, fit for a folder, found {entry['name']!r}")
        if not Path(entry["settings"]).is_file():
            sys.exit(f"{where}: {entry['settings']}: there is no such file")
        names.add(entry["name"])
        yield entry


def lines(path):
    """The whole lines of a file of JSON lines."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def work():
    for entry in list(queue()):
        command = [LAB / "nae-train", "reproduce", entry["like"], "--settings", entry["settings"], "--scale", entry["scale"]]
        command += ["--seeds", str(entry["seeds"]), "--out", LAB / entry["name"], "--trace-outliers", "--quiet"]
        print(entry["name"], flush=True)
        # Both are asked to stop; this one waits for the program to write its state.
        program = subprocess.Popen(command)
        signal.signal(signal.SIGINT, lambda *_: None)
        code = program.wait()
        if code:
            sys.exit(f"{entry['name']}: ended with {code}")


def collect():
    """A line a look of every model, finished or not, into models/results/lab/NAME.jsonl."""
    RESULTS.mkdir(exist_ok=True)
    for entry in queue():
        folder = LAB / entry["name"]
        done = {f"{model['cell']}-{model['seed']}": model for model in lines(folder / "cells.jsonl")}
        looks = []
        for metrics in sorted(folder.glob("*/metrics.jsonl")):
            cell, seed = metrics.parent.name.rsplit("-", 1)
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
        if looks:
            text = "".join(json.dumps(look, sort_keys=True) + "\n" for look in looks)
            path = RESULTS / f"{entry['name']}.jsonl"
            path.write_text(text)
            print(f"{path}: {len(looks)} looks of {len({(l['cell'], l['seed']) for l in looks})} models")


def status():
    for entry in queue():
        done = len(lines(LAB / entry["name"] / "cells.jsonl"))
        runs = sorted((LAB / entry["name"]).glob("*/resume.bin"))
        now = f", at {runs[-1].parent.name}" if runs else ""
        print(f"{entry['name']}: {done} models finished{now}")


if __name__ == "__main__":
    commands = {"work": work, "collect": collect, "status": status, "check": lambda: list(queue())}
    commands[sys.argv[1]]()
