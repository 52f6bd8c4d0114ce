"""What a Ray cluster costs beside the same detector here: images a second and core, for few and for many images.

    python tests/peers/python_ray.py models/digits/digits.onnx [IMAGES …]

Scores uint8 [N, 20, 20], made up, with one thread here and with one actor of one thread on a local Ray, in turns; prints
seconds and images a second of both, and seconds of Ray's start. The wheel has to be installed, with Ray.
"""

import logging
import statistics
import sys
import time

import numpy as np

TURNS = 3


def timed(work):
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def main(model, counts):
    import nae_edge
    import nae_edge.ray
    import ray

    seconds, _ = timed(lambda: ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error"))
    print(f"ray.init: {seconds:.1f} s")
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    detector = nae_edge.Detector.open(model, threads=1)
    random = np.random.default_rng(0)
    for count in counts:
        images = random.integers(0, 256, (count, 20, 20), np.uint8)

        def here():
            batches = [images[at : at + 256] for at in range(0, count, 256)]
            return np.concatenate([detector.score(one, latents=False, heat_maps=False).energies for one in batches])

        def there():
            scored = nae_edge.ray.score(ray.data.from_numpy(images), model, concurrency=1)
            return np.concatenate([batch["energy"] for batch in scored.iter_batches(batch_format="numpy")])

        pairs = []
        for _ in range(TURNS):
            (one, expected), (other, found) = timed(here), timed(there)
            np.testing.assert_array_equal(found, expected)
            pairs.append((one, other))
        one, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"{count} images: here {one:.2f} s, {count / one:.0f} a second; by one actor {other:.2f} s, "
            f"{count / other:.0f} a second; {other / one:.2f} times"
        )


if __name__ == "__main__":
    main(sys.argv[1], [int(count) for count in sys.argv[2:]] or [4_000, 100_000])
