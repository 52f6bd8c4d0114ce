"""The wheel within Spark, on this machine: energies by `mapInPandas` equal those here. Needs pyspark and Java 17.

    python tests/peers/python_spark.py models/digits/digits.onnx
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd


def score_images(model: bytes):
    """A function for `DataFrame.mapInPandas`: a detector a task, on one thread."""

    def score(frames):
        from nae_edge import Detector

        detector = Detector.from_bytes(model, threads=1)
        for frame in frames:
            scores = detector.score(list(frame["content"]), latents=False, heat_maps=False)
            yield pd.DataFrame({"id": frame["id"], "energy": scores.energies, "anomaly": scores.verdicts})

    return score


def main(path):
    from nae_edge import Detector
    from pyspark.sql import SparkSession

    # Spark's workers are other interpreters: of the environment with the wheel.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    files = sorted(Path("models/digits/images").glob("*.png")) * 50
    contents = [file.read_bytes() for file in files]
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()
    images = spark.createDataFrame(pd.DataFrame({"id": range(len(contents)), "content": contents})).repartition(4)
    model = Path(path).read_bytes()
    scored = images.mapInPandas(score_images(model), "id long, energy float, anomaly boolean").toPandas()
    found = scored.sort_values("id")
    np.testing.assert_array_equal(found["energy"], Detector.open(path).score(contents).energies)
    print(f"{len(found)} images by Spark {spark.version}: the same energies, {int(found['anomaly'].sum())} anomalies")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
