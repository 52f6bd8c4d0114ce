"""The same experiment in several ways, over seeds: AUROC means, their standard errors, and whether the ways differ.

    cargo build --release -p nae-train-cli
    python3 tests/seeds.py target/release/nae-train engines.json --seeds 10 \\
        cpu="--preset digits --held-out 9 --engine cpu" burn="--preset digits --held-out 9 --engine burn"

Each way is a name and the arguments of a training run; the first is what the others are compared with. The file keeps every
run, so a second call goes on where the first ended, also side by side with it; a way whose runs there have other arguments is
refused. --only runs some of the ways, --only '' none (the table has what is there). Differences are given twice: of the means,
with the error of two independent means; and by seed, over those that both ways have, where the same data are divided in the
same way.
"""

import argparse
import fcntl
import json
import math
import os
import pathlib
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program", help="the built nae-train")
parser.add_argument("file", type=pathlib.Path, help="where the runs are kept")
parser.add_argument("ways", nargs="+", metavar="NAME=ARGUMENTS")
parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to this, less one")
parser.add_argument("--only", help="run these ways alone, by name, with commas")
arguments = parser.parse_args()

for way in arguments.ways:
    if "=" not in way:
        sys.exit(f"expected NAME=ARGUMENTS, found {way!r}")
ways = dict(way.split("=", 1) for way in arguments.ways)
chosen = ways if arguments.only is None else [name for name in arguments.only.split(",") if name]
for name in chosen:
    if name not in ways:
        sys.exit(f"--only: there is no way {name!r} among the arguments; known: {', '.join(ways)}")


program = subprocess.run([arguments.program, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def kept():
    return json.loads(arguments.file.read_text()) if arguments.file.exists() else []


def keep(run):
    with open(arguments.file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs = sorted([*kept(), run], key=lambda run: (run["way"], run["seed"]))
        text = "[\n" + ",\n".join(json.dumps(run) for run in runs) + "\n]\n"
        partial = arguments.file.with_suffix(".partial")
        partial.write_text(text)
        os.replace(partial, arguments.file)


def train(way, seed):
    with tempfile.TemporaryDirectory() as folder:
        run = ["--seed", str(seed), "--out", f"{folder}/run", "--json", "-q"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [arguments.program, *shlex.split(ways[way]), *run], check=True, stdout=subprocess.PIPE, text=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(done.stdout)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    keep(
        {
            "way": way,
            "seed": seed,
            "arguments": ways[way],
            "program": program,
            "processor_seconds": round(seconds, 1),
            "kept_update": result["kept_update"],
            "diverged": result["diverged"],
            "auroc": {row["outliers"]: row["nae"] for row in result["auroc"]["rows"]},
        }
    )


# A way is known by its name, and runs of others would stand below its arguments.
for run in kept():
    if ways.get(run["way"], run["arguments"]) != run["arguments"]:
        sys.exit(
            f"{arguments.file}: {run['way']}, seed {run['seed']}: expected a run by {ways[run['way']]!r}, found one by "
            f"{run['arguments']!r}; give the way another name, or choose another file"
        )
    # Runs of before this was kept say nothing of it.
    if run["way"] in chosen and run.get("program", program) != program:
        sys.exit(
            f"{arguments.file}: {run['way']}, seed {run['seed']}: expected a run by {program}, found one by {run['program']}; "
            "choose another file"
        )

for seed in range(arguments.seeds):
    for way in chosen:
        if not any((run["way"], run["seed"]) == (way, seed) for run in kept()):
            train(way, seed)


def mean(values):
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return statistics.fmean(values), error


runs = {way: {run["seed"]: run for run in kept() if run["way"] == way} for way in ways}
runs = {way: seeds for way, seeds in runs.items() if seeds}
for way, seeds in runs.items():
    seconds = statistics.fmean(run["processor_seconds"] for run in seeds.values())
    print(f"{way}: {len(seeds)} seeds, {seconds:.0f} processor seconds each; {ways[way]}")
first = next(iter(ways))
if first not in runs:
    sys.exit(f"{arguments.file}: it has no run of {first!r}, which the other ways are compared with")
for outliers in next(iter(runs[first].values()))["auroc"]:
    print(f"\n{outliers}")
    values = {way: {seed: run["auroc"][outliers] for seed, run in seeds.items()} for way, seeds in runs.items()}
    base, base_error = mean(values[first].values())
    for way, of in values.items():
        average, error = mean(of.values())
        line = f"  {way:12} {average:.4f} ± {error:.4f}"
        if way != first:
            pairs, pairs_error = mean([of[seed] - values[first][seed] for seed in of if seed in values[first]])
            line += f"   {average - base:+.4f} ± {math.hypot(error, base_error):.4f}"
            line += f"   by seed {pairs:+.4f} ± {pairs_error:.4f}"
        print(line)
