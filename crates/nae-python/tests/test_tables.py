"""Tables from every library: trained on and scored, they are the same table."""

import csv
import io
from pathlib import Path

import nae_edge
import numpy as np
import pandas
import PIL.Image
import polars
import pyarrow
import pytest
from nae_edge._files import write_columns
from nae_edge._inputs import Columns


@pytest.fixture(scope="module")
def mixed():
    """A frame with numbers, whole numbers with gaps, a category with gaps, and a constant."""
    random = np.random.default_rng(5)
    kind = random.choice(["red", "green", "blue"], size=200)
    level = random.normal(size=200) + (kind == "red") * 3.0
    count = pandas.array((level * 10).round().astype(int), dtype="Int64")
    count[[3, 50]] = pandas.NA
    frame = pandas.DataFrame({"kind": kind, "level": level, "count": count, "fixed": 7.0})
    frame.loc[[8, 9], "kind"] = None
    return frame


@pytest.fixture(scope="module")
def mixed_model(mixed):
    with pytest.warns(UserWarning, match="columns left out: fixed"):
        return nae_edge.train(mixed, missing="fill", pretraining_updates=400, updates=2, progress=False)


def test_a_frame_is_a_matrix_is_a_file(table_model, readings, tmp_path):
    detector, names = table_model.detector, [f"column {number}" for number in range(1, 5)]
    expected = detector.score(readings)
    assert len(expected) == 300 and expected.names is None and expected.heat_maps.shape == (300, 4, 1)
    path = tmp_path / "readings.csv"
    pandas.DataFrame(readings).to_csv(path, header=False, index=False)
    frame = pandas.DataFrame(readings)
    for form in [
        path,
        frame,
        frame.set_axis(names, axis=1),
        frame.set_axis(names, axis=1)[names[::-1]],
        polars.DataFrame(readings, schema=names),
        pyarrow.table(dict(zip(names, readings.T, strict=True))),
        pyarrow.RecordBatch.from_pandas(frame.set_axis(names, axis=1)),
        readings.tolist(),
        np.asfortranarray(readings),
    ]:
        np.testing.assert_array_equal(detector.score(form).energies, expected.energies)
    assert detector.score(path).names[:2] == [f"{path}:1", f"{path}:2"]
    np.testing.assert_allclose(detector.score(readings.astype(np.float32)).energies, expected.energies, rtol=1e-3)


def test_a_table_without_rows_has_no_scores(table_model, readings):
    names = [f"column {number}" for number in range(1, 5)]
    for nothing in (readings[:0], pandas.DataFrame(readings[:0]), polars.DataFrame(readings[:0], schema=names)):
        scores = table_model.detector.score(nothing)
        assert len(scores) == 0 and scores.heat_maps.shape == (0, 4, 1) and scores.errors == {}
        assert scores.p_values.shape == scores.verdicts.shape == (0,)


@pytest.mark.parametrize("name", ["None", "#N/A", "<NA>", "NaT", "nan", "?"])
def test_a_column_called_as_a_gap_is_a_column(name):
    random = np.random.default_rng(0)
    frame = pandas.DataFrame(random.normal(size=(60, 3)), columns=["1", "2", name])
    with pytest.warns(UserWarning, match="60 normal rows are few"):
        model = nae_edge.train(frame, method="mahalanobis", progress=False).detector
    assert len(model.score(frame)) == 60 and set(model.metadata["columns"]) == {f"column {name}" for name in frame}


def test_categories_and_gaps_mean_the_same_everywhere(mixed, mixed_model, tmp_path):
    detector, path = mixed_model.detector, tmp_path / "mixed.csv"
    mixed.to_csv(path, index=False)
    expected = detector.score(path).energies
    assert ["count", "kind", "level"] == sorted(detector.metadata["columns"])
    arrow = pyarrow.Table.from_pandas(mixed)
    for form in [mixed, polars.from_pandas(mixed), arrow, mixed.astype({"kind": "category"})]:
        np.testing.assert_allclose(detector.score(form).energies, expected, rtol=1e-6)
    odd = detector.score(mixed.assign(kind="violet")).energies
    assert np.mean(odd > expected) > 0.9


def test_a_series_is_scored_by_windows(readings):
    with pytest.warns(UserWarning):
        trained = nae_edge.train(
            readings, window=4, window_stride=2, pretraining_updates=10, updates=1, progress=False
        )
    scores = trained.detector.score(readings)
    assert len(scores) == 149 and scores.names[0] == "0-3" and scores.names[-1] == "296-299"
    # The last row is in a window, too.
    assert trained.detector.score(readings[:299]).names[-2:] == ["294-297", "295-298"]
    with pytest.raises(ValueError, match="table: expected at least 4 rows, as many as make one window, found 3"):
        trained.detector.score(readings[:3])


def test_what_is_wrong_is_named(table_model, readings, detector, tmp_path):
    table = table_model.detector
    rows = readings.copy()
    rows[7, 2] = np.nan
    with pytest.raises(ValueError, match='row 7: the reading in the column "column 3" is missing'):
        table.score(rows)
    rows[7, 2] = np.inf
    with pytest.raises(ValueError, match='row 7: expected a number in the column "column 3", found "inf"'):
        table.score(rows)
    with pytest.raises(ValueError, match='table: expected the column "column 1", found a, b'):
        table.score(pandas.DataFrame({"a": [1.0], "b": [2.0]}))
    with pytest.raises(ValueError, match='expected the column "column 4", found column 1, column 2, column 3'):
        table.score(readings[:, :3])
    with pytest.raises(ValueError, match=r"expected a table \[rows, columns\].*reshape\(1, -1\)"):
        table.score(readings[0])
    with pytest.raises(ValueError, match="table: .*two columns are called"):
        table.score(pandas.DataFrame([[1.0, 2.0]], columns=["a", "a"]))
    with pytest.raises(ValueError, match='expected the column "column 4"'):
        table.score(readings[:0, :3])
    with pytest.raises(TypeError, match="expected a table of numbers"):
        table.score(np.array([["a", "b", "c", "d"]]))
    with pytest.raises(ValueError, match="table: the model is one of images"):
        detector.score(pandas.DataFrame({"a": [1.0]}))
    picture = PIL.Image.new("RGB", (30, 20))
    encoded = io.BytesIO()
    picture.save(encoded, "png")
    for image in (encoded.getvalue(), [encoded.getvalue()], picture):
        for errors in ("raise", "coerce"):
            with pytest.raises(ValueError, match="expected a table, as the model is one of tables, found images; give"):
                table.score(image, errors=errors)
    for series in (polars.Series([1.0]), pandas.Series([1.0])):
        with pytest.raises(TypeError, match="data: expected a table, found a Series: give a DataFrame"):
            table.score(series)
    (tmp_path / "short.csv").write_text("column 1,column 2\n1,2\n")
    with pytest.raises(ValueError, match='short.csv: expected the column "column 3"'):
        table.score(tmp_path / "short.csv")
    with pytest.raises(ValueError, match='data.csv, line 3: the reading in the column "b" is missing.*--missing fill'):
        frame = pandas.DataFrame({"a": range(60), "b": [1.0, None, 2.0] * 20})
        nae_edge.train(frame, pretraining_updates=1, updates=1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_names_of_any_kind_survive(readings, tmp_path):
    path = tmp_path / "names.csv"
    for names in [
        ["a,b", ";;;;;", 'e"f', " g  h"],
        ["1", "2", "3", "4"],
        ["1", "2", "3", "nan"],
        ["x\ny", "a\tb", "é", ",,,,,,;"],
        ["flow  rate", "p\r\n(bar)", " \tt ", "u\u00a0 v"],
        # Of two columns, whose names have separators only.
        ["p,q,r", "a;b;c"],
        ["a;b", "c;d;e"],
        ["a\tb", "c,d"],
    ]:
        frame = pandas.DataFrame(readings[:, [0, 2, 1, 3][: len(names)]], columns=names)
        # A line of numbers is no header, and a file without one has no column "nan".
        frame.to_csv(path, index=False, header="1" not in names, quoting=csv.QUOTE_NONNUMERIC)
        forms = (frame,) if "nan" in names else (frame, path)
        for learnt in forms:
            detector = nae_edge.train(learnt, pretraining_updates=1, updates=1, progress=False).detector
            first, last = (detector.score(form).energies for form in (forms[0], forms[-1]))
            assert len(first) == 300
            np.testing.assert_allclose(first, last, rtol=1e-6, err_msg=str(names))


def test_names_do_not_decide_how_numbers_are_written(readings):
    """With semicolons between cells, the texts would be numbers with a decimal comma."""
    texts = np.random.default_rng(8).choice(["1,5", "2,5"], size=300)
    frame = pandas.DataFrame({"a;b": readings[:, 0], "c": readings[:, 2], "d": texts})
    with pytest.warns(UserWarning, match='"d" is taken for a category'):
        trained = nae_edge.train(frame, pretraining_updates=1, updates=1, progress=False)
    assert set(trained.detector.metadata["columns"]) == {"a;b", "c", "d"}
    assert trained.detector.input_shape[1] == 4, "two numbers and a category of two values"


def test_truth_values_are_one_category_whatever_holds_them(tmp_path):
    random = np.random.default_rng(6)
    level = random.normal(size=120)
    frame = pandas.DataFrame({"level": level, "other": level + random.normal(size=120), "flag": level > 0.3})
    path = tmp_path / "flags.csv"
    frame.to_csv(path, index=False)
    polars_path = tmp_path / "polars.csv"
    polars.from_pandas(frame).write_csv(polars_path)
    with_gap = frame.astype({"flag": object})
    for learnt in (path, frame):
        with pytest.warns(UserWarning):
            detector = nae_edge.train(learnt, pretraining_updates=40, updates=2, progress=False).detector
        expected = detector.score(path).energies
        for form in [frame, with_gap, polars.from_pandas(frame), pyarrow.Table.from_pandas(frame), polars_path]:
            np.testing.assert_allclose(detector.score(form).energies, expected, rtol=1e-6)


def test_truth_values_as_numbers_are_the_same_category(tmp_path):
    random = np.random.default_rng(6)
    flag, level = random.random(200) < 0.5, random.normal(size=200)
    frame = pandas.DataFrame({0: level, 1: flag, 2: level * np.where(flag, 1, -1)})
    with pytest.warns(UserWarning):
        detector = nae_edge.train(frame, pretraining_updates=40, updates=2, progress=False).detector
    expected = detector.score(frame).energies
    for form in [frame.to_numpy(float), frame.to_numpy(), frame.astype({1: int}), frame.astype({1: float})]:
        np.testing.assert_allclose(detector.score(form).energies, expected, rtol=1e-6)
    # Another number is another value.
    other = frame.astype({1: int})
    other[1] += 2
    assert np.mean(detector.score(other).energies != expected) > 0.9


def test_what_a_mask_hides_is_a_gap(table_model, readings):
    rows = np.ma.masked_array(readings.copy(), mask=False)
    rows[7, 2] = -9999.0
    rows = np.ma.masked_values(rows, -9999.0)
    table = table_model.detector
    for form in (rows, list(rows)):
        with pytest.raises(ValueError, match='row 7: the reading in the column "column 3" is missing'):
            table.score(form)
        assert list(table.score(form, errors="coerce").errors) == [7]
    np.testing.assert_array_equal(table.score(rows[:7]).energies, table.score(readings[:7]).energies)
    with pytest.raises(ValueError, match='data.csv, line 9: the reading in the column "column 3" is missing'):
        nae_edge.train(rows, pretraining_updates=1, updates=1, progress=False)


def test_a_file_of_a_table_is_no_sample(table_model, readings, tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("w") as file:
        csv.writer(file).writerows([[f"column {number}" for number in range(1, 5)], *readings[:3].tolist(), ["", 1, 2, 3]])
    scores = table_model.detector.score([path], errors="coerce")
    assert list(scores.errors) == [3] and len(scores) == 4
    with pytest.raises(FileNotFoundError, match="nope.csv"):
        table_model.detector.score([path, tmp_path / "nope.csv"], errors="coerce")


def test_numbered_columns_are_found_by_their_numbers(table_model, readings):
    detector, frame = table_model.detector, pandas.DataFrame(readings)
    expected = detector.score(readings).energies
    np.testing.assert_array_equal(detector.score(frame[[3, 1, 0, 2]]).energies, expected)
    with pytest.raises(ValueError, match='expected the column "column 1"'):
        detector.score(frame.assign(**{"spare": 0.0}).rename(columns={"spare": 4}).drop(columns=[0]))


def test_an_infinity_is_named_wherever_it_is(readings):
    for row in (0, 5):
        odd = readings.copy()
        odd[row, 1] = np.inf
        with pytest.raises(ValueError, match=f'line {row + 2}: expected a number in the column "column 2", found "inf"'):
            nae_edge.train(odd, pretraining_updates=5, updates=1, progress=False)


def test_a_text_beside_numbered_columns_does_not_rename_them(table_model, readings):
    detector, frame = table_model.detector, pandas.DataFrame(readings)
    texts = frame.set_axis(["1", "2", "3", "4"], axis=1)
    expected = detector.score(readings).energies
    for form in (frame, frame[[3, 1, 0, 2]], frame.astype("float32").astype(float), texts, texts[["4", "2", "1", "3"]]):
        labelled = form.assign(label="q")
        np.testing.assert_array_equal(detector.score(labelled).energies, detector.score(form).energies)
    np.testing.assert_array_equal(detector.score(texts.assign(label="q")).energies, expected)
    np.testing.assert_array_equal(detector.score(frame.assign(label="q")).energies, expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_numbers_as_names_are_found_by_models_of_frames_and_of_files(readings, tmp_path):
    kind = np.where(readings[:, 0] > 0, "high", "low")
    numbered = pandas.DataFrame(readings).assign(kind=kind)
    quick = {"pretraining_updates": 5, "updates": 1, "progress": False}
    # A whole number is the same column in training, whatever stands beside it.
    detector = nae_edge.train(numbered, **quick).detector
    assert set(detector.metadata["columns"]) == {f"column {number}" for number in range(1, 5)} | {"kind"}
    expected = detector.score(numbered).energies
    np.testing.assert_array_equal(detector.score(numbered[["kind", 2, 0, 3, 1]].assign(more="q")).energies, expected)
    # A file has its header's names where there is a text among them, and so has a frame of the same names.
    texts = numbered.set_axis(["1", "2", "3", "4", "kind"], axis=1)
    texts.to_csv(tmp_path / "texts.csv", index=False)
    for learnt in (tmp_path / "texts.csv", texts):
        detector = nae_edge.train(learnt, **quick).detector
        assert set(detector.metadata["columns"]) == {"1", "2", "3", "4", "kind"}
        expected = detector.score(tmp_path / "texts.csv").energies
        np.testing.assert_allclose(detector.score(texts).energies, expected, rtol=1e-6)
    # Of numbers alone there is no header in a file; the frames are found by such a model all the same.
    trained = nae_edge.train(texts.drop(columns="kind"), outliers=texts.assign(**{"1": 9.0}), **quick)
    assert "| outliers (given)" in str(trained.report) and len(trained.detector.score(texts)) == 300
    # A file's header of whole numbers and texts, and the frame that has the numbers as numbers.
    numbered.to_csv(tmp_path / "numbered.csv", index=False)
    detector = nae_edge.train(tmp_path / "numbered.csv", **quick).detector
    expected = detector.score(tmp_path / "numbered.csv").energies
    np.testing.assert_allclose(detector.score(numbered).energies, expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_dates_mean_the_same_everywhere(tmp_path):
    random = np.random.default_rng(9)
    days = random.integers(0, 3, 200)
    date = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(days, unit="D")
    level = random.normal(size=200) + 3.0 * (days == 1)
    frame = pandas.DataFrame({"date": date, "level": level, "other": level + random.normal(size=200)})
    path = tmp_path / "dates.csv"
    frame.to_csv(path, index=False)
    detector = nae_edge.train(frame, pretraining_updates=40, updates=2, progress=False).detector
    assert detector.input_shape[1] == 5, "two numbers and a category of three values"
    expected = detector.score(path).energies
    dates = polars.from_pandas(frame).with_columns(polars.col("date").cast(polars.Date))
    objects = frame.assign(date=frame["date"].dt.date)
    category = frame.astype({"date": "category"})
    arrow = pyarrow.Table.from_pandas(frame)
    for form in [frame, category, objects, polars.from_pandas(frame), dates, dates.to_arrow(), arrow]:
        np.testing.assert_allclose(detector.score(form).energies, expected, rtol=1e-6)
    # Times of day are kept, and a row means the same in a table of one row.
    times = frame.assign(date=frame["date"] + pandas.to_timedelta(8 * (days == 2), unit="h"))
    detector = nae_edge.train(times, pretraining_updates=40, updates=2, progress=False).detector
    assert detector.input_shape[1] == 5
    times.to_csv(path, index=False)
    expected = detector.score(path).energies
    np.testing.assert_allclose(detector.score(times).energies, expected, rtol=1e-6)
    rows = np.concatenate([detector.score(times[at : at + 1]).energies for at in range(20)])
    np.testing.assert_allclose(rows, expected[:20], rtol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "times",
    [
        ["2020-01-01", "2020-01-01 12:00", "2020-01-02"],
        ["2020-01-01 06:00", "2020-01-01 12:00:00.500", "2020-01-02"],
        ["2020-01-01", "2020-01-02", "2020-01-03"],
        ["2020-01-01 06:00:00.000001", "2020-01-01 12:00", "2020-01-02 18:30"],
    ],
)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_are_the_same_category_in_files_and_in_memory(times, zone, tmp_path):
    """pandas writes a whole column in one form, polars every value in another, and in memory each stands alone."""
    random = np.random.default_rng(9)
    which = random.integers(0, 3, 200)
    level = random.normal(size=200) + 3.0 * (which == 1)
    time = pandas.to_datetime(times, format="mixed").tz_localize(zone)[which]
    frame = pandas.DataFrame({"time": time, "level": level, "other": level + random.normal(size=200)})
    of_pandas, of_polars = tmp_path / "pandas.csv", tmp_path / "polars.csv"
    frame.to_csv(of_pandas, index=False)
    polars.from_pandas(frame).write_csv(of_polars)
    arrow = pyarrow.Table.from_pandas(frame)
    forms = [frame, of_pandas, of_polars, polars.from_pandas(frame), arrow, frame.astype({"time": object}), frame[:1]]
    for learnt in (frame, of_pandas, of_polars):
        detector = nae_edge.train(learnt, method="knn", progress=False).detector
        assert detector.input_shape[1] == 5, "two numbers and a category of three values"
        expected = detector.score(of_pandas).energies
        for form in forms:
            found = detector.score(form).energies
            np.testing.assert_allclose(found, expected[: len(found)], rtol=1e-6, atol=1e-9)
        later = frame.assign(time=frame["time"] + pandas.Timedelta(milliseconds=250))
        assert np.mean(detector.score(later).energies > expected) > 0.9


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_carriage_return_in_a_text_ends_no_line(readings, tmp_path):
    kind = np.where(readings[:, 0] > 0, "x\ry", "z")
    frame = pandas.DataFrame(readings[:, [0, 2]], columns=["a", "b"]).assign(kind=kind)
    for learnt in (frame, frame[["kind", "a", "b"]]):
        detector = nae_edge.train(learnt, method="knn", progress=False).detector
        assert detector.input_shape[1] == 4, "two numbers and a category of two values"
        np.testing.assert_array_equal(detector.score(learnt).energies, detector.score(frame).energies)
    content = Path(write_columns(Columns(["a", "k"], [np.array([1.0, np.nan]), ["z", "x\ry"]]), tmp_path / "k.csv"))
    assert content.read_bytes() == b'"a","k"\n1.0,z\n,"x\ry"\n'


def test_arrays_of_arrow_are_no_tables(table_model, readings):
    array = pyarrow.array(readings[:, 0])
    for given, found in ((array, "an Array"), (pyarrow.chunked_array([array]), "a ChunkedArray")):
        with pytest.raises(TypeError, match=f"^data: expected a table, found {found}: give"):
            table_model.detector.score(given)
    names = [f"column {number}" for number in range(1, 5)]
    rows = pyarrow.StructArray.from_arrays([pyarrow.array(column) for column in readings.T], names)
    expected = table_model.detector.score(readings).energies
    np.testing.assert_array_equal(table_model.detector.score(rows).energies, expected)


def test_durations_are_refused(table_model, readings):
    names = [f"column {number}" for number in range(1, 5)]
    spent = pandas.to_timedelta(np.arange(300) % 3, unit="D")
    frame = pandas.DataFrame(readings, columns=names).assign(spent=spent)
    duration = '^data: the column "spent": expected numbers, texts, truth values or dates, found a duration; convert it to a number'
    for form in (frame, frame.astype({"spent": object}), polars.from_pandas(frame), pyarrow.Table.from_pandas(frame)):
        with pytest.raises(TypeError, match=duration):
            table_model.detector.score(form)
        with pytest.raises(TypeError, match=duration):
            nae_edge.train(form, pretraining_updates=1, updates=1, progress=False)
