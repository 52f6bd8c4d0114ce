"""Whether cameras lose frames where there are many: ten of Motion JPEG, watched by one service, and what its figures say.

    cargo build --release -p nae-infer-cli --no-default-features --features serve,simd
    python tests/python/cameras.py target/release/nae-infer [--seconds 60] [--threads N]

Eight cameras send 5 frames a second to the digits model, two send 10 a second to models/mnist-ood (the paper's network for
28 x 28 pixels at half its width). The frames are digits, as JPEG by ffmpeg, 64 x 64; queue and alarm filter are the defaults.
Printed are, by /metrics, the frames of each camera that were sent, scored and dropped, and what the service took.
"""

import argparse
import csv
import gzip
import http.server
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).parents[2]
MARK = "the page is at http://"
SIDE = 64


def digits(count):
    """Digits but for 1, which the model does not know: rows of 64 values from 0 to 16."""
    with gzip.open(ROOT / "data/digits-8x8/digits.csv.gz", "rt") as file:
        rows = [[int(float(value)) for value in row] for row in csv.reader(file)]
    return [row[:64] for row in rows if row[64] != 1][:count]


def enlarged(pixels):
    """A PGM image, bilinear with corners aligned."""
    place = [(i * 7 / (SIDE - 1)) for i in range(SIDE)]
    grid = [(int(p), min(int(p) + 1, 7), p - int(p)) for p in place]
    image = bytearray()
    for top, bottom, v in grid:
        for left, right, h in grid:
            upper = pixels[8 * top + left] * (1 - h) + pixels[8 * top + right] * h
            lower = pixels[8 * bottom + left] * (1 - h) + pixels[8 * bottom + right] * h
            image.append(round((upper * (1 - v) + lower * v) * 255 / 16))
    return b"P5 %d %d 255\n" % (SIDE, SIDE) + bytes(image)


def jpegs(images):
    """PGM images as JPEG."""
    command = ["ffmpeg", "-loglevel", "error", "-f", "image2pipe", "-c:v", "pgm", "-i", "-"]
    command += ["-f", "image2pipe", "-c:v", "mjpeg", "-q:v", "2", "-pix_fmt", "yuvj444p", "-"]
    stream = subprocess.run(command, input=b"".join(images), stdout=subprocess.PIPE, check=True).stdout
    return [b"\xff\xd8" + image for image in stream.split(b"\xff\xd8")[1:]]


class Camera(http.server.BaseHTTPRequestHandler):
    """/FPS/NUMBER, from the frame on that the number says."""

    frames = []
    sent = {}
    stop = threading.Event()

    def do_GET(self):
        _, fps, number = self.path.split("/")
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=cut")
        self.end_headers()
        begin, count = time.monotonic(), 0
        while not self.stop.wait(max(0, begin + count / float(fps) - time.monotonic())):
            image = self.frames[(37 * int(number) + count) % len(self.frames)]
            self.wfile.write(b"--cut\r\nContent-Length: %d\r\n\r\n" % len(image) + image + b"\r\n")
            count += 1
            self.sent[self.path] = self.sent.get(self.path, 0) + 1
        # The service finds the camera silent, not gone: nothing is sent any more.
        time.sleep(5)

    def log_message(self, *_):
        pass


def figure(text, name, camera):
    """The value of a figure of the service's own frames."""
    found = re.findall(rf'^{name}{{camera="{camera}"(?:,origin="Source")?}} (\S+)$', text, re.M)
    return int(float(found[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()

    Camera.frames = jpegs([enlarged(pixels) for pixels in digits(400)])
    http.server.ThreadingHTTPServer.request_queue_size = 32
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cameras = [(f"digits-{i}", "digits", 5, i) for i in range(8)]
    cameras += [(f"conv28-{i}", "mnist-ood", 10, i) for i in range(8, 10)]
    settings = ""
    for name, model, fps, number in cameras:
        source = f"http://127.0.0.1:{server.server_address[1]}/{fps}/{number}"
        settings += f'[[camera]]\nname = "{name}"\nmodel = "{ROOT}/models/{model}/{model}.onnx"\nsource = "{source}"\n'
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "serve.toml")
        path.write_text(settings)
        command = [options.program, "serve", "--config", path, "--state", folder, "--listen", "127.0.0.1:0"]
        command += ["--threads", str(options.threads)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                line = next((line for line in process.stderr if MARK in line), None)
                if line is None:
                    sys.exit("the service did not start")
                # Alarms are in its log: somebody has to read on.
                threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()
                address = "http://" + line.split(MARK)[1].split("/")[0]
                time.sleep(options.seconds)
                Camera.stop.set()
                time.sleep(2)
                text = urllib.request.urlopen(address + "/metrics").read().decode()
                fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")")[1].split()
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                memory, threads = (re.search(rf"^{name}:\s*(\d+)", status, re.M)[1] for name in ("VmRSS", "Threads"))
                processor = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            finally:
                process.kill()
    print(f"{'camera':10} {'sent':>6} {'scored':>6} {'dropped':>7}")
    lost = 0
    for name, _, fps, number in cameras:
        sent = Camera.sent[f"/{fps}/{number}"]
        scored, dropped = figure(text, "nae_frames_total", name), figure(text, "nae_frames_dropped_total", name)
        lost += sent - scored
        print(f"{name:10} {sent:6} {scored:6} {dropped:7}")
    share = 100 * processor / (options.seconds + 2)
    print(f"service: {share:.1f}% of a core, {int(memory) / 1024:.0f} MiB, {threads} threads")
    print(f"load of the machine, all programs: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    sys.exit(lost != 0)


if __name__ == "__main__":
    main()
