"""Scores of images: the same numbers as elsewhere, whatever the images come as."""

import os
import pickle
import subprocess
import sys
import textwrap
import threading

import nae_edge
import numpy as np
import PIL.Image
import pytest
from nae_edge import Detector
from nae_edge._inputs import arrow_images


def test_energies_are_those_of_the_other_runtimes(detector, vectors):
    images, energies = vectors
    scores = detector.score(images)
    np.testing.assert_allclose(scores.energies, energies, rtol=1e-5)
    assert len(scores) == 15 and scores.names is None
    assert scores.latents.shape == (15, 32) and scores.heat_maps.shape == (15, 16, 16)
    # Squared error over pixels: the map's mean is the energy.
    np.testing.assert_allclose(scores.heat_maps.mean(axis=(1, 2)), energies, rtol=1e-4)
    # How many of the model's 162 calibration energies are as large as the image's, and one, of 163.
    at_least = [124, 1, 69, 79, 44, 7, 163, 61, 108, 49, 1, 1, 1, 1, 1]
    np.testing.assert_array_equal(scores.p_values, np.float32(at_least) / np.float32(163))
    # At the model's rate of 1%, which 2 of 163 are above.
    assert scores.verdicts.tolist() == [count == 1 for count in at_least]
    np.testing.assert_array_equal(scores.verdicts, scores.energies > detector.threshold)


def test_the_energies_of_the_readme(detector, root):
    folder = root / "models/digits/images"
    names = [str(folder / f"{name}.png") for name in ("checkerboard", "half-three", "six", "zero")]
    scores = detector.score(names)
    assert [f"{energy:.6f}" for energy in scores.energies] == ["0.393138", "0.021232", "0.001281", "0.002935"]
    assert [f"{p_value:.4f}" for p_value in scores.p_values] == ["0.0061", "0.0061", "1.0000", "0.7607"]
    assert scores.verdicts.tolist() == [True, True, False, False] and scores.names == names


def test_the_same_images_in_every_form(detector, digits):
    images = digits[0][:9]
    expected = detector.score(images).energies
    floats = images.astype(np.float32) / 255
    rgb = np.repeat(images[..., None], 3, axis=-1)
    pillow = [PIL.Image.fromarray(image) for image in images]
    for form in [
        floats,
        floats.astype(np.float64),
        images[:, None],
        images[..., None],
        np.asfortranarray(images),
        np.ascontiguousarray(images.transpose(1, 2, 0)).transpose(2, 0, 1),
        floats.astype(">f4"),
        list(images),
        pillow,
        [image.convert("RGBA") for image in pillow],
    ]:
        np.testing.assert_allclose(detector.score(form).energies, expected, rtol=1e-5)
    # Luma of grey is grey, to rounding.
    np.testing.assert_allclose(detector.score(rgb).energies, expected, rtol=1e-3)
    np.testing.assert_allclose(detector.score(rgb.transpose(0, 3, 1, 2)).energies, expected, rtol=1e-3)
    one = detector.score(images[4])
    np.testing.assert_allclose(one.energies, expected[4:5], rtol=1e-5)
    np.testing.assert_allclose(detector.score(rgb[4]).energies, expected[4:5], rtol=1e-3)
    np.testing.assert_allclose(detector.score(pillow[4]).energies, expected[4:5], rtol=1e-5)


def test_the_copied_and_the_uncopied_way_agree(detector, vectors):
    images, _ = vectors
    whole, copied = detector.score(images), detector.score(images.astype(np.float64))
    np.testing.assert_array_equal(whole.energies, copied.energies)
    np.testing.assert_array_equal(whole.heat_maps, copied.heat_maps)


def test_many_images_come_in_order(detector, vectors):
    images, _ = vectors
    many = np.concatenate([images] * 60)
    np.testing.assert_array_equal(detector.score(many).energies.reshape(60, 15)[17], detector.score(images).energies)
    scores = detector.score(many, latents=False, heat_maps=False)
    assert scores.latents is None and scores.heat_maps is None and len(scores) == 900


@pytest.mark.parametrize(
    ("shape", "layout", "count"),
    [
        ((5, 7), None, 1),
        ((5, 7, 3), None, 1),
        ((5, 7, 1), None, 1),
        ((5, 7, 9), None, 5),
        ((3, 7, 9), None, 3),
        ((3, 7, 9), "CHW", 1),
        ((5, 7, 3), "nhw", 5),
        ((5, 1, 7, 9), None, 5),
        ((5, 7, 9, 3), None, 5),
        ((5, 3, 7, 3), "NHWC", 5),
        ((5, 3, 7, 3), "NCHW", 5),
        ((0, 7, 9), None, 0),
    ],
)
def test_axes_are_read_by_the_rule(detector, shape, layout, count):
    assert len(detector.score(np.zeros(shape, np.uint8), layout=layout)) == count


@pytest.mark.parametrize(
    ("shape", "layout", "problem"),
    [
        ((5, 3, 7, 3), None, r'may be \[N, C, H, W\] or \[N, H, W, C\]: give layout="NCHW"'),
        ((5, 7, 9, 2), None, r"expected 1 or 3 channels, \[N, C, H, W\] or \[N, H, W, C\], found .*\[5, 7, 9, 2\]"),
        ((5,), None, r"expected images \[N, C, H, W\].* found an array of shape \[5\]"),
        ((2, 2, 2, 2, 2), None, "expected images"),
        ((5, 7), "NHW", "layout NHW: expected 3 axes"),
        ((5, 7), "WH", 'layout: expected one of HW, HWC, CHW, NHW, NHWC, NCHW, found "WH"'),
        ((5, 7, 2), "HWC", "expected 1 or 3 channels, found 2"),
        ((5, 0, 9), None, "at least one pixel"),
        ((5, 7, 0, 3), None, "at least one pixel"),
    ],
)
def test_axes_that_cannot_be_read_are_an_error(detector, shape, layout, problem):
    with pytest.raises(ValueError, match=problem):
        detector.score(np.zeros(shape, np.uint8), layout=layout)


def test_a_network_for_colour_does_not_guess(root, tmp_path, digits):
    images = np.repeat(digits[0][:60, None], 3, axis=1)
    images[:, 1] = 255 - images[:, 1]
    with pytest.warns(UserWarning):
        trained = nae_edge.train(images, pretraining_updates=1, updates=1, progress=False)
    assert trained.detector.input_shape == (3, 16, 16)
    with pytest.raises(ValueError, match=r'may be \[C, H, W\] or \[N, H, W\]: give layout="CHW"'):
        trained.detector.score(images[0])
    one = trained.detector.score(images[0], layout="CHW").energies
    np.testing.assert_allclose(one, trained.detector.score(images[0].transpose(1, 2, 0)).energies, rtol=1e-5)
    assert len(trained.detector.score(images[0], layout="NHW")) == 3


def test_the_threshold_is_chosen_by_a_rate(detector, model, vectors):
    assert detector.false_positive_rate == 0.01
    loose = detector.with_false_positive_rate(0.1)
    assert loose.threshold < detector.threshold and loose.false_positive_rate == 0.1
    assert loose.threshold == Detector.open(model, false_positive_rate=0.1).threshold
    energies = detector.score(vectors[0]).energies
    middle = float(np.median(energies))
    by_energy = Detector.open(model, threshold=middle)
    np.testing.assert_array_equal(by_energy.score(vectors[0]).verdicts, energies > np.float32(middle))
    for wrong in (0.0, 1.0, -1.0, 1e-9, float("nan")):
        with pytest.raises(ValueError, match="digits.onnx: false-positive rate"):
            detector.with_false_positive_rate(wrong)


def test_what_the_file_says(detector):
    card = detector.metadata
    assert card["energy"] == "squared-l2" and card["image"] == [1, 16, 16]
    assert card["threshold"] == pytest.approx(detector.threshold) and card["false_positive_rate"] == 0.01
    assert detector.input_shape == (1, 16, 16) and detector.backend == "simd"
    assert "digits.onnx" in repr(detector)


def test_a_microcontrollers_file_scores_too(root, vectors):
    native = Detector.open(root / "models/digits/digits.nae")
    assert native.backend == "native"
    np.testing.assert_allclose(native.score(vectors[0]).energies, vectors[1], rtol=1e-4)


def test_pickled_with_its_threshold(detector, model, vectors, tmp_path):
    for one in (detector, detector.with_false_positive_rate(0.1), Detector.open(model, threshold=0.5, threads=1)):
        again = pickle.loads(pickle.dumps(one))
        assert again.threshold == one.threshold
        np.testing.assert_array_equal(again.score(vectors[0]).energies, one.score(vectors[0]).energies)
    detector.save(tmp_path / "copy.onnx")
    assert (tmp_path / "copy.onnx").read_bytes() == model.read_bytes() == detector.to_bytes()


def test_threads_share_a_detector_and_the_lock_is_let_go(model, vectors):
    detector = Detector.open(model, threads=1)
    many = np.concatenate([vectors[0]] * 200)
    expected = detector.score(many).energies
    found, ticks, done = [], [], threading.Event()

    def score():
        found.append(detector.score(many).energies)

    workers = [threading.Thread(target=score) for _ in range(3)]
    # With the lock held there would be a tick between two calls, and none within.
    ticker = threading.Thread(target=lambda: [ticks.append(0) for _ in iter(lambda: done.wait(0.001), True)])
    ticker.start()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    done.set()
    ticker.join()
    for energies in found:
        np.testing.assert_array_equal(energies, expected)
    assert len(found) == 3 and len(ticks) > 10


def test_errors_say_what_the_command_line_says(program, detector, model, tmp_path):
    absent, damaged, text = tmp_path / "absent.onnx", tmp_path / "damaged.onnx", tmp_path / "text.png"
    damaged.write_bytes(model.read_bytes()[:5000])
    text.write_text("no image")
    for kind, wrong, arguments in [
        (FileNotFoundError, lambda: Detector.open(absent), (absent, text)),
        (ValueError, lambda: Detector.open(damaged), (damaged, text)),
        (ValueError, lambda: Detector.open(model, false_positive_rate=1e-6), (model, text, "--false-positive-rate", "1e-6")),
        (ValueError, lambda: detector.score(text), (model, text)),
    ]:
        with pytest.raises(kind) as raised:
            wrong()
        assert str(raised.value) == program("nae-infer", "score", *arguments)


def test_what_is_wrong_is_named(detector, model, digits, tmp_path):
    images = digits[0][:4].astype(np.float64) / 255
    images[2, 3, 3] = 16
    with pytest.raises(ValueError, match="image 2: expected values from 0 to 1, found 16 at 27; divide bytes by 255"):
        detector.score(images)
    images[2, 3, 3] = np.nan
    with pytest.raises(ValueError, match="image 2: expected values from 0 to 1, found NaN"):
        detector.score(images.astype(np.float32))
    # "divide" is advice for numbers only.
    number = "; divide by the largest value there can be, and give floats from 0 to 1"
    for kind, found, remedy in [
        (np.int64, "int64", number),
        (np.longdouble, np.dtype(np.longdouble).name, number),
        (bool, "bool", r"; convert it by a.astype\('float32'\)"),
        (object, "object", ""),
        (complex, "complex128", ""),
        (str, "<U3", ""),
    ]:
        problem = f"^data: expected an array of uint8, float32 or float64, found {found}{remedy}$"
        with pytest.raises(TypeError, match=problem):
            detector.score(digits[0].astype(kind))
    with pytest.raises(TypeError, match="^outliers: expected an array of uint8.*found int64"):
        nae_edge.train(digits[0][:60], outliers=digits[0].astype(np.int64), pretraining_updates=1, updates=1)
    with pytest.raises(TypeError, match="^data: expected an array, .* found dict"):
        detector.score({})
    with pytest.raises(ValueError, match="^data: expected an array of numbers: "):
        detector.score([[[1.0, 2.0], [3.0]]])
    with pytest.raises(ValueError, match="^data: a Pillow image of mode I has no range"):
        detector.score(PIL.Image.fromarray(digits[0][0].astype(np.int32)))
    with pytest.raises(FileNotFoundError, match="absent.png"):
        detector.score(tmp_path / "absent.png")
    for threads in (0, -1):
        with pytest.raises(ValueError, match=f"threads: expected 1 or more, found {threads}"):
            Detector.from_bytes(detector.to_bytes(), threads=threads)
    with pytest.raises(ValueError, match='^backend: expected tract, (ort, )?simd, native or auto, found "gpu"$'):
        Detector.from_bytes(detector.to_bytes(), backend="gpu")
    with pytest.raises(ValueError, match="model: not an ONNX model, or a truncated one: it is empty"):
        Detector.from_bytes(b"")
    with pytest.raises(ValueError, match="digits.nae: backend `tract` does not read .nae files"):
        Detector.open(model.with_suffix(".nae"), backend="tract")


def test_a_file_is_replaced_as_a_whole(detector, tmp_path):
    path, same = tmp_path / "model.onnx", tmp_path / "same"
    path.write_bytes(b"the old content")
    os.link(path, same)
    detector.save(path)
    assert path.read_bytes() == detector.to_bytes()
    assert same.read_bytes() == b"the old content"
    with pytest.raises(FileNotFoundError, match="the folder .* does not exist"):
        detector.save(tmp_path / "absent" / "model.onnx")


def test_each_member_of_a_list_is_one_image(detector, digits):
    grey = digits[0][:5]
    expected = detector.score(grey).energies
    # Three equal channels are grey.
    for axis in (0, -1):
        coloured = [np.stack([image] * 3, axis=axis) for image in grey]
        np.testing.assert_allclose(detector.score(coloured).energies, expected, rtol=1e-4)
    with pytest.raises(ValueError, match="one image in each member of a list"):
        detector.score([np.zeros((5, 8, 8), np.uint8)])
    with pytest.raises(ValueError, match="one image in each member of a list, found 2"):
        detector.score([np.zeros((2, 3, 8, 8), np.uint8)])
    assert len(detector.score([np.zeros((5, 8, 8), np.uint8)], layout="NHW")) == 5
    with pytest.raises(ValueError, match="CHW"):
        detector.score([np.zeros((3, 8, 3), np.uint8)])


def test_nothing_is_scored_as_nothing(detector):
    for none in (np.zeros((0, 8, 8), np.float32), []):
        scores = detector.score(none)
        assert (len(scores), scores.p_values.tolist(), scores.verdicts.tolist()) == (0, [], [])
        assert scores.latents.shape == (0, 32) and scores.heat_maps.shape == (0, 16, 16)


def test_what_would_be_passed_over_is_refused(detector, model):
    with pytest.raises(ValueError, match="threshold.*false_positive_rate"):
        Detector.open(model, false_positive_rate=0.1, threshold=5.0)
    with pytest.raises(ValueError, match="layout"):
        detector.score(str(model), layout="HWC")


def test_a_photograph_is_turned_whatever_it_comes_as(detector, digits, tmp_path):
    picture, path = PIL.Image.fromarray(np.kron(digits[0][6], np.ones((4, 4), np.uint8))), tmp_path / "turned.png"
    # A quarter to the left in the file, and a tag that turns it back.
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    picture.transpose(PIL.Image.Transpose.ROTATE_90).save(path, exif=exif)
    expected = detector.score(picture).energies
    for form in (path, path.read_bytes(), PIL.Image.open(path)):
        np.testing.assert_array_equal(detector.score(form).energies, expected)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_pipes_and_devices_are_refused(model, tmp_path):
    """In a process of its own: one that waits for a pipe does not end by Ctrl-C either."""
    script = """
        import sys, nae_edge

        detector = nae_edge.Detector.open(sys.argv[1])
        for path in sys.argv[2:]:
            for call in (detector.score, nae_edge.Detector.open, nae_edge.train):
                try:
                    call(path)
                except ValueError as error:
                    print(error)
            print(detector.score([path], errors="coerce").errors[0])
    """
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", textwrap.dedent(script), str(model), str(pipe), "/dev/zero"]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert len(lines) == 8
    for line, path in zip(lines, 4 * [str(pipe)] + 4 * ["/dev/zero"], strict=True):
        assert path in line and line.endswith("found a device or a pipe"), line


def test_numbers_of_arrow_have_the_type_of_their_column(detector, digits):
    import pyarrow

    def nested(images, kind):
        return pyarrow.array([image.tolist() for image in images], pyarrow.list_(pyarrow.list_(kind)))

    images, expected = digits[0][:3], detector.score(digits[0][:3]).energies
    found = arrow_images(nested(images, pyarrow.uint8()))
    assert [image.dtype for image in found] == [np.uint8] * 3
    np.testing.assert_array_equal(detector.score(found).energies, expected)
    fixed = pyarrow.array([image.tolist() for image in images], pyarrow.list_(pyarrow.large_list(pyarrow.uint8()), 8))
    np.testing.assert_array_equal(detector.score(arrow_images(pyarrow.chunked_array([fixed]))).energies, expected)
    for kind in (pyarrow.float32(), pyarrow.float64()):
        found = arrow_images(nested(images / np.float32(255), kind))
        assert found[0].dtype == kind.to_pandas_dtype()
        np.testing.assert_allclose(detector.score(found).energies, expected, rtol=1e-5)
    # As for an array of NumPy, whatever the largest value.
    for kind in ("uint16", "int64", "int8"):
        (image,) = arrow_images(nested(images[:1] // 2, getattr(pyarrow, kind)()))
        for form in (image, (images[0] // 2).astype(kind)):
            with pytest.raises(TypeError, match=f"expected an array of uint8, float32 or float64, found {kind}; divide"):
                detector.score(form)
    # A gap, rows of several lengths, no image, and no numbers are errors of their samples.
    rows = [[[1, None]], [[1], [1, 2]], None, [[1, 2]]]
    scores = detector.score(arrow_images(pyarrow.array(rows, pyarrow.list_(pyarrow.list_(pyarrow.uint8())))), errors="coerce")
    assert list(scores.errors) == [0, 1, 2]
    assert arrow_images(pyarrow.array([b"x", None])) == [b"x", None]
    with pytest.raises(TypeError, match="image 0: expected an array of uint8"):
        detector.score(arrow_images(pyarrow.array([[["a"]]])))


def test_an_array_with_transparency_is_not_many_grey_images(detector):
    array = np.zeros((8, 8, 4), np.uint8)
    with pytest.raises(ValueError, match="transparency"):
        detector.score(array)
    assert len(detector.score(array, layout="NHW")) == 8


def test_samples_that_cannot_be_scored_are_recorded(detector, root, tmp_path):
    """In their places, whatever they come as; the others have the energies that they have without them."""
    folder = root / "models/digits/images"
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes((folder / "six.png").read_bytes()[:60])
    names = [str(folder / "six.png"), str(damaged), str(tmp_path / "none.png"), str(folder / "zero.png")]
    alone = detector.score([names[0], names[3]])
    contents = [(folder / "six.png").read_bytes(), b"no image", b"", (folder / "zero.png").read_bytes()]
    for samples in (names, contents):
        scores = detector.score(samples, errors="coerce")
        assert sorted(scores.errors) == [1, 2] and len(scores) == 4
        for name in ("energies", "p_values", "latents", "heat_maps"):
            values = getattr(scores, name)
            np.testing.assert_array_equal(values[[0, 3]], getattr(alone, name))
            assert np.isnan(values[[1, 2]]).all()
        assert scores.verdicts.tolist() == [False] * 4
    assert detector.score(names, errors="coerce").names == names
    assert "damaged.png" in detector.score(names, errors="coerce").errors[1]
    assert "image 1" in detector.score(contents, errors="coerce").errors[1]
    # Also within a batch that the network takes in one call.
    images = np.zeros((300, 8, 8), np.float32)
    images[[7, 260], 3, 3] = np.nan
    scores = detector.score(images, errors="coerce")
    assert sorted(scores.errors) == [7, 260] and scores.errors[260].startswith("image 260: ")
    assert np.isnan(scores.energies).nonzero()[0].tolist() == [7, 260]
    only = detector.score(names[1], errors="coerce")
    assert len(only) == 1 and only.latents.shape == (1, 32) and only.heat_maps.shape == (1, 16, 16)
    assert np.isnan(only.latents).all() and np.isnan(only.heat_maps).all()
    without = detector.score(names[1], errors="coerce", latents=False, heat_maps=False)
    assert without.latents is None and without.heat_maps is None
    with pytest.raises(FileNotFoundError, match="none.png"):
        detector.score(names[2:])
    with pytest.raises(ValueError, match="errors: expected raise or coerce, found 'ignore'"):
        detector.score(names, errors="ignore")


def test_members_of_a_list_that_are_no_samples_are_recorded(detector, digits, root):
    """In their places, with the type and the shape that they have; without `coerce` the first of them is named."""
    path = root / "models/digits/images/six.png"
    content, array = path.read_bytes(), digits[0][3]
    for good, wrong, problem in [
        (content, None, "expected the bytes of an image file, as image 0 is, found None"),
        (content, array, "expected the bytes of an image file, as image 0 is, found ndarray"),
        (array, None, "expected an image, as image 0 is, found None"),
        (array, path, "expected an image, as image 0 is, found a path"),
        (array, array.astype(np.int32), "expected an array of uint8, float32 or float64, found int32"),
        (array, np.zeros((2, 2, 2), np.uint8), r"expected one image in each member of a list, .*\[2, 2, 2\]"),
        (PIL.Image.fromarray(array), PIL.Image.fromarray(array.astype(np.int32)), "mode I has no range"),
    ]:
        samples = [good, wrong, good]
        with pytest.raises((TypeError, ValueError), match=f"^image 1: .*{problem}"):
            detector.score(samples)
        scores = detector.score(samples, errors="coerce")
        assert list(scores.errors) == [1] and len(scores) == 3
        with pytest.raises(ValueError, match=problem):
            raise ValueError(scores.errors[1])
        np.testing.assert_array_equal(scores.energies[[0, 2]], detector.score([good] * 2).energies)
        assert np.isnan(scores.energies[1]) and np.isnan(scores.latents[1]).all()
    scores = detector.score([None, None], errors="coerce")
    assert list(scores.errors) == [0, 1] and scores.heat_maps.shape == (2, 16, 16)
    scores = detector.score([path, None, str(path)], errors="coerce")
    assert list(scores.errors) == [1] and scores.names == [str(path), "image 1", str(path)]
    with pytest.raises(TypeError, match="file 1: expected a path, as file 0 is, found None"):
        detector.score([path, None])
    # What is wrong with the call is no error of a sample.
    with pytest.raises(ValueError, match="layout: expected one of HW"):
        detector.score([array, array], layout="WH", errors="coerce")


def test_masks_of_images_are_not_passed_over(detector, digits):
    image = np.ma.masked_equal(digits[0][0], 0)
    for masked in (image, [digits[0][1], image], np.ma.stack([image, image])):
        with pytest.raises(ValueError, match="expected images without a mask, found [0-9]+ masked values"):
            detector.score(masked)
    assert list(detector.score([digits[0][1], image], errors="coerce").errors) == [1]
    nothing = np.ma.masked_array(digits[0][0], mask=False)
    np.testing.assert_array_equal(detector.score(nothing).energies, detector.score(digits[0][0]).energies)


def test_grey_and_transparency_multiplied_by_it(detector, digits):
    image = PIL.Image.fromarray(digits[0][2])
    expected = detector.score(image).energies
    for mode in ("LA", "RGBA"):
        multiplied = image.convert(mode).convert(mode.replace("A", "a"))
        np.testing.assert_allclose(detector.score(multiplied).energies, expected, rtol=1e-4)


def test_arguments_of_another_type_are_named(detector, model, vectors):
    for given, problem in [
        ({"threads": 1.5}, "threads: expected a whole number, 1 or more, found 1.5"),
        ({"threads": "2"}, "threads: expected a whole number, 1 or more, found '2'"),
        ({"backend": 3}, "backend: expected a text, found 3"),
        ({"threshold": "a"}, "threshold: expected a number, found 'a'"),
        ({"false_positive_rate": [0.1]}, r"false_positive_rate: expected a number, found \[0.1\]"),
    ]:
        with pytest.raises(TypeError, match=f"^{problem}$"):
            Detector.open(model, **given)
    for given, problem in [
        ({"latents": 0}, "latents: expected True or False, found 0"),
        ({"heat_maps": None}, "heat_maps: expected True or False, found None"),
        ({"layout": 3}, "layout: expected a text, found 3"),
    ]:
        with pytest.raises(TypeError, match=f"^{problem}$"):
            detector.score(vectors[0], **given)
    with pytest.raises(TypeError, match="^rate: expected a number, found 'a'$"):
        detector.with_false_positive_rate("a")
    kinds = {"threads": np.int64(1), "threshold": np.float32(0.5)}
    assert Detector.open(model, **kinds).threshold == 0.5
    assert detector.score(vectors[0], latents=np.False_).latents is None


def test_rows_that_cannot_be_scored_are_recorded(table_model, readings):
    rows = readings[:9].copy()
    rows[4, 2] = np.nan
    scores = table_model.detector.score(rows, errors="coerce")
    assert sorted(scores.errors) == [4] and "row 4" in scores.errors[4]
    expected = table_model.detector.score(np.delete(rows, 4, 0)).energies
    np.testing.assert_array_equal(np.delete(scores.energies, 4), expected)


def test_ctrl_c_ends_scoring(root):
    script = """
        import os, signal, sys, threading, time, numpy, nae_edge

        detector = nae_edge.Detector.open(sys.argv[1], threads=1)
        images = numpy.zeros((3_000_000, 8, 8), numpy.uint8)
        started = time.monotonic()
        detector.score(images[:30_000], latents=False, heat_maps=False)
        whole = 100 * (time.monotonic() - started)
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        try:
            detector.score(images, latents=False, heat_maps=False)
        except KeyboardInterrupt:
            print("early", time.monotonic() - started < whole / 3)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(root / "models/digits/digits.onnx")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "early True\n", done.stdout + done.stderr
