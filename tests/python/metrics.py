"""Writes nae-train/tests/data/metrics.json: detection metrics by scikit-learn and intervals by scipy's root finder, which
the tests hold nae-train's own to. Run by hand, with scikit-learn installed; the file is committed."""

import json
import math
import pathlib
import random

import scipy.optimize
import sklearn.metrics

ROOT = pathlib.Path(__file__).resolve().parents[2]


def detection(normal, outlier):
    labels = [0] * len(normal) + [1] * len(outlier)
    energies = normal + outlier
    rates, caught, _ = sklearn.metrics.roc_curve(labels, energies, drop_intermediate=False)
    return {
        "normal": normal,
        "outlier": outlier,
        "auroc": sklearn.metrics.roc_auc_score(labels, energies),
        "aupr": sklearn.metrics.average_precision_score(labels, energies),
        "false_positive_rate_at_95": next(rate for rate, tpr in zip(rates, caught) if tpr >= 0.95),
    }


def newcombe(auroc, n, m):
    """Both roots of |A - t| = z sqrt(V(t))."""
    z = 1.959963984540054
    spare = (n + m) / 2 - 1

    def excess(t):
        variance = t * (1 - t) * (1 + spare * (1 - t) / (2 - t) + spare * t / (1 + t)) / (n * m)
        return abs(auroc - t) - z * math.sqrt(max(variance, 0.0))

    def root(end):
        start = 0.999999 if auroc == 1.0 else 1e-6 if auroc == 0.0 else auroc
        if auroc in (0.0, 1.0) and end == auroc:
            return auroc
        return scipy.optimize.brentq(excess, start, end, xtol=1e-13)

    return {"auroc": auroc, "normal": n, "outlier": m, "low": root(0.0), "high": root(1.0)}


def main():
    rng = random.Random(0)
    # Halves and quarters, so that ties come, and are the same numbers in single precision.
    draw = lambda n, shift: [round(4 * (rng.gauss(0, 1) + shift)) / 4 for _ in range(n)]
    sizes = [(1, 1, 0), (1, 5, 1), (7, 3, 0), (20, 20, 1), (50, 13, 2), (13, 50, 0.5), (200, 100, 1.5), (40, 40, 20)]
    cases = [detection(draw(n, 0), draw(m, shift)) for n, m, shift in sizes]
    cases.append(detection([1.0, 1.0, 1.0], [1.0, 1.0]))
    measured = [(0.5, 10, 10), (0.9, 323, 182), (0.99, 60, 40), (1.0, 323, 300), (0.03, 25, 100), (0.0, 9, 4)]
    out = {"detection": cases, "newcombe": [newcombe(*m) for m in measured]}
    (ROOT / "nae-train/tests/data/metrics.json").write_text(json.dumps(out, indent=1) + "\n")


main()
