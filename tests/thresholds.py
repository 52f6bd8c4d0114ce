"""Whether false-positive rates are what a threshold says: a preset trained over several seeds, each of which divides the data
again, and what share of the normal test data is above each threshold.

    cargo build --release -p nae-train-cli
    python3 tests/thresholds.py TARGET/release/nae-train thresholds.json --seeds 20 -- --preset digits

What follows `--` goes to nae-train as it is. The calibration's promise does not depend on how good a model is, so that a
short training is enough here. With n energies of calibration, a threshold at the k-th largest and m test samples, the number
above it has a beta-binomial distribution of parameters k and n + 1 - k; a run is inside the band where that number is
neither in the lowest nor in the highest 2.5%; of a time series, as if its windows were independent. Goes on with what the file does not have; ends with an error where fewer
than 85% are inside, or one rate is more than 2.5 times its target.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program", help="the built nae-train")
parser.add_argument("file", type=Path, help="where the runs are kept")
parser.add_argument("--seeds", type=int, default=20, help="seeds 0 to this, less one")
parser.add_argument("arguments", nargs="+", help="of nae-train")
arguments = parser.parse_args()


def log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def band(k, n, m):
    """The least and the most of `m` test samples that are above the threshold in the middle 95% of cases."""
    b = n + 1 - k
    below, low = 0.0, None
    for x in range(m + 1):
        choose = math.lgamma(m + 1) - math.lgamma(x + 1) - math.lgamma(m - x + 1)
        below += math.exp(choose + log_beta(x + k, m - x + b) - log_beta(k, b))
        if low is None and below > 0.025:
            low = x
        if below >= 0.975:
            return low, x
    return low, m


program = subprocess.run([arguments.program, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
runs = json.loads(arguments.file.read_text()) if arguments.file.exists() else {}
kept = runs.setdefault(" ".join(arguments.arguments), {})
for seed, run in kept.items():
    # Runs of before this was kept say nothing of it.
    if run.get("program", program) != program:
        sys.exit(f"{arguments.file}: seed {seed}: expected a run by {program}, found one by {run['program']}; choose another file")
for seed in range(arguments.seeds):
    if str(seed) in kept:
        continue
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.program, *arguments.arguments, "--seed", str(seed), "--out", f"{folder}/run", "--json", "--quiet"]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"seed {seed}: nae-train ended with {result.returncode}")
    result = json.loads(result.stdout)
    rate = result["false_positive_rate"]
    kept[str(seed)] = {key: rate[key] for key in ("target", "expected", "calibration_count", "independent_count", "measured")}
    kept[str(seed)] |= {"test_count": result["auroc"]["normal_count"], "program": program}
    arguments.file.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n")

inside, worst = 0, 0.0
print(f"{'seed':>4} {'target':>8} {'measured':>8} {'band':>17}")
for seed, run in sorted(kept.items(), key=lambda item: int(item[0])):
    n, m = run["calibration_count"], run["test_count"]
    k = math.floor(run["expected"] * (n + 1) + 1e-4)
    low, high = band(k, n, m)
    above = round(run["measured"] * m)
    is_inside = low <= above <= high
    inside += is_inside
    worst = max(worst, run["measured"] / run["target"])
    mark = "" if is_inside else "  outside"
    print(f"{seed:>4} {run['target']:>8} {run['measured']:>8.4f} {low / m:>8.4f} {high / m:>8.4f}{mark}")
print(f"{inside} of {len(kept)} inside the band; the highest is {worst:.2f} times its target")
if not kept or inside < 0.85 * len(kept) or worst > 2.5:
    sys.exit(1)
