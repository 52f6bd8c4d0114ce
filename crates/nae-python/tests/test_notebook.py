"""The notebook, run as a user would, and what it shows."""

import re

import nbclient
import nbformat
import pytest


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs(root, tmp_path, monkeypatch):
    monkeypatch.setenv("NAE_DIGITS", str(root / "data/digits-8x8/digits.csv.gz"))
    notebook = nbformat.read(root / "crates/nae-python/digits.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    html = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    # A bar for each part of the run, the report, and the table of methods.
    assert any("NAE training" in text and "<progress" in text for text in html)
    assert any(text.startswith("<iframe srcdoc=") for text in html)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    table = outputs[-1]["data"]["text/plain"]
    print(table)
    rows = dict(re.findall(r"^(NAE|NAE, columns|Isolation Forest|ECOD|kNN)\s+(0\.\d+)", table, re.MULTILINE))
    assert len(rows) == 5
    # However short the training: far better than chance.
    assert float(rows["NAE"]) > 0.6, table
    assert (tmp_path / "digits.onnx").stat().st_size > 10_000
