"""Scores images through the shared library: interface.py LIBRARY MODEL IMAGE...; then asks it for nonsense."""

import ctypes
import sys

_, library, model, *images = sys.argv


class Score(ctypes.Structure):
    _fields_ = [
        ("energy", ctypes.c_float),
        ("p_value", ctypes.c_float),
        ("threshold", ctypes.c_float),
        ("anomaly", ctypes.c_int32),
    ]


nae = ctypes.CDLL(library)
size, pointer, text = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
common = [ctypes.POINTER(Score), pointer, text, size]
nae.nae_detector_open.restype = pointer
nae.nae_detector_open.argtypes = [text, text, ctypes.c_float, text, size]
nae.nae_detector_free.argtypes = [pointer]
nae.nae_detector_score_encoded.argtypes = [pointer, text, size, *common]
nae.nae_detector_score_file.argtypes = [pointer, text, *common]
nae.nae_detector_score_pixels.argtypes = [pointer, text, size, size, size, size, *common]
nae.nae_version.restype = text
assert nae.nae_version().count(b".") == 2

error = ctypes.create_string_buffer(256)
detector = nae.nae_detector_open(model.encode(), None, 0.0, error, len(error))
assert detector, error.value
score = Score()
for path in images:
    data = open(path, "rb").read()
    assert nae.nae_detector_score_encoded(detector, data, len(data), score, None, error, len(error)), error.value
    print(path, score.energy, score.p_value, "anomaly" if score.anomaly else "normal")

# Rows of 20 bytes of which 16 are the image's: what lies between does not matter.
rows = [bytes((17 * x * y) % 256 for x in range(16)) for y in range(16)]
energies = []
for gap in (b"", b"\xff" * 4):
    data = gap.join(rows)
    ok = nae.nae_detector_score_pixels(detector, data, 16, 16, 1, 16 + len(gap), score, None, error, len(error))
    assert ok, error.value
    energies.append(score.energy)
assert energies[0] == energies[1]


def refused(function, *arguments):
    error.value = b""
    assert not function(*arguments, error, len(error)) and error.value, arguments


refused(nae.nae_detector_open, b"nothing.onnx", None, 0.0)
refused(nae.nae_detector_open, None, None, 0.0)
refused(nae.nae_detector_open, b"\xff\xfe", None, 0.0)
refused(nae.nae_detector_open, model.encode(), b"abacus", 0.0)
refused(nae.nae_detector_open, model.encode(), None, 2.0)
refused(nae.nae_detector_score_encoded, detector, b"no image", 8, score, None)
refused(nae.nae_detector_score_encoded, detector, None, 8, score, None)
refused(nae.nae_detector_score_encoded, detector, b"no image", 2**64 - 1, score, None)
assert b"a length of 18446744073709551615" in error.value, error.value
refused(nae.nae_detector_score_encoded, None, b"", 0, score, None)
refused(nae.nae_detector_score_file, detector, b"nothing.png", score, None)
refused(nae.nae_detector_score_pixels, detector, b"", 0, 16, 1, 16, score, None)
refused(nae.nae_detector_score_pixels, detector, b"", 16, 16, 2, 32, score, None)
refused(nae.nae_detector_score_pixels, detector, b"", 16, 16, 1, 15, score, None)
refused(nae.nae_detector_score_pixels, detector, b"", 16, 16, 1, 2**63, score, None)
# No room for the reason, or hardly any.
assert not nae.nae_detector_open(b"nothing.onnx", None, 0.0, None, 0)
assert not nae.nae_detector_open(b"nothing.onnx", None, 0.0, error, 4)
assert len(error.value) == 3
if sys.platform == "linux":
    import resource

    # Pixels within the limit, and room for them, but not for their floats: an error, and not the end of the process.
    data = bytes(32767 * 8192)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, before[1]))
    refused(nae.nae_detector_score_pixels, detector, data, 32767, 8192, 1, 32767, score, None)
    assert error.value.startswith(b"no memory for an image of 32767"), error.value
    resource.setrlimit(resource.RLIMIT_AS, before)
nae.nae_detector_free(detector)
nae.nae_detector_free(None)
