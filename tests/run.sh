#!/usr/bin/env bash
# Sets up what the tests need, where it is missing, and runs everything: formatting, lints, documentation, unit,
# integration and parity tests, firmware under QEMU, the commands of the guides in docs/, the packages for crates.io, half a
# minute of fuzzing each of what reads bytes of unknown origin, the Python package, clients of the camera
# service and the exported models in Python, and the slow tests.
#
#   tests/run.sh             everything
#   tests/run.sh --quick     without QEMU, the guides, packages, fuzzing, Python and the slow tests
#
# Debian packages are installed where this script may (as root); elsewhere it says which are missing. The Python
# packages go into .venv, tools into the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=false
for argument in "$@"; do
  case $argument in
    --quick) quick=true ;;
    -h | --help) sed -n '2,11p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "unknown argument: $argument; see $0 --help" >&2; exit 2 ;;
  esac
done

logs=${CARGO_TARGET_DIR:-target}
mkdir -p "$logs"

# What Python compiles is kept, for every process compiles it otherwise, but not beside the sources.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$(realpath "$logs")/pycache

# What still runs beside when something fails.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# With the time of this script and its children on the processors, once they have ended.
step() {
  times >"$logs/times"
  printf '\n== %s (%d s so far; of processors %s min)\n' "$1" "$SECONDS" \
    "$(awk 'END { split($0, t, /[ms ]+/); printf "%.1f", t[1] + t[3] + (t[2] + t[4]) / 60 }' "$logs/times")"
}

debian_packages() {
  local missing=()
  command -v qemu-system-arm >/dev/null || missing+=(qemu-system-arm)
  command -v qemu-system-riscv32 >/dev/null || missing+=(qemu-system-misc)
  command -v arm-none-eabi-nm >/dev/null || missing+=(binutils-arm-none-eabi)
  command -v arm-none-eabi-gcc >/dev/null || missing+=(gcc-arm-none-eabi)
  command -v chromium >/dev/null || missing+=(chromium)
  [ -x /usr/sbin/mosquitto ] || missing+=(mosquitto)
  command -v faketime >/dev/null || missing+=(faketime)
  command -v ffmpeg >/dev/null || missing+=(ffmpeg)
  [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
  command -v openssl >/dev/null || missing+=(openssl)
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  firmware-example/toolchain.sh thumbv7em-none-eabihf thumbv7m-none-eabi >/dev/null 2>&1 ||
    missing+=(rustc-web cargo-web rust-web-src)
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    step "Installing ${missing[*]}"
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
  else
    echo "Missing: ${missing[*]}" >&2
    echo "Install them (Debian: sudo apt-get install ${missing[*]}; the Rust packages are not needed after" >&2
    echo "rustup target add thumbv7em-none-eabihf thumbv7m-none-eabi), or run $0 --quick." >&2
    exit 1
  fi
}

# What leaves room for others runs in the background; `finished NAME` waits for it, and ends the script where it failed.
background() { # NAME COMMAND…
  local name=$1
  shift
  "$@" >"$logs/$name.log" 2>&1 &
  pids[$name]=$!
}

finished() { # NAME
  wait "${pids[$1]}" || failed "$1"
}

failed() { # NAME
  grep -hE -A 3 --no-group-separator '^test .*FAILED|panicked at' "$logs/$1.log" || true
  tail -n 200 "$logs/$1.log"
  echo "failed: $1" >&2
  exit 1
}
declare -A pids

# What a change breaks most easily and what takes seconds comes first.
step "Formatting and the layers of the modules"
cargo fmt --all --check
cargo test --locked --quiet -p layers >"$logs/layers.log" 2>&1 || failed layers

if ! $quick; then
  debian_packages
  background python tests/python/environment.sh .venv tests/python/requirements.txt
  background wheel-environment tests/python/wheel.sh --environment
  # Builds for other machines, one after the other, and an emulator that counts instructions, not time: a core is busy with
  # them while the tests compile, and longer.
  background qemu tests/qemu.sh
fi

step "Building the tests"
cargo test --locked --no-run >"$logs/build.log" 2>&1 || failed build

if ! $quick; then
  finished python
  # ONNX Runtime's library comes with its Python package.
  ORT_DYLIB_PATH=$(find "$PWD/.venv" -name 'libonnxruntime.so*' | head -n 1)
  # Tests that pass without what they need fail with the last of these, where it is a matter of this script.
  export ORT_DYLIB_PATH NAE_SLOW_TESTS=1 NAE_EVERY_RUNTIME=1
fi

step "Tests"
# The service's tests wait most of their time, and some have deadlines: they run beside the others, which give way to them,
# and so does what the firmware has still to build. Parity's tests take what the firmware said: they come last.
apart=(service)
if ! $quick; then
  apart+=(energies)
  renice -n 10 -p "${pids[qemu]}" >/dev/null 2>&1 || true # It may have ended.
fi
background service cargo test --locked --test service -- --nocapture --test-threads=2
others=(--exact)
for target in "${apart[@]}"; do
  while read -r name; do others+=(--skip "$name"); done < <(
    cargo test --locked --quiet --test "$target" -- --list --format terse | sed -n 's/: test$//p')
done
nice cargo test --locked -- --nocapture --test-threads=2 "${others[@]}" >"$logs/tests.log" 2>&1 || failed tests
finished service
cat "$logs/service.log" >>"$logs/tests.log"
if ! $quick; then
  step "Firmware under QEMU, and its energies beside the other runtimes'"
  finished qemu
  cat "$logs/qemu.log"
  cargo test --locked --test energies -- --nocapture >"$logs/energies.log" 2>&1 || failed energies
  cat "$logs/energies.log" >>"$logs/tests.log"
fi
grep -hE '^test result|skipped' "$logs/tests.log" | grep -v ' 0 passed' || true
if ! $quick; then
  quiet=$(grep -hoE '(skipped|not run): .*' "$logs/tests.log" "$logs/qemu.log" | grep -vF -f <(sed '/^#/d; /^$/d' tests/may-be-skipped.txt) || true)
  [ -z "$quiet" ] || { printf 'Tests that did not run, and are not in tests/may-be-skipped.txt:\n%s\n' "$quiet" >&2; exit 1; }
fi
sed -n '/^┌/,/^└/p' "$logs/tests.log"

if ! $quick; then
  # By the programs that are built already: it goes on while the lints compile, which take one core for long stretches.
  background guides tests/guides.sh
fi

step "Lints"
cargo clippy --locked --all-targets --quiet -- -D warnings

if ! $quick; then
  step "Commands of the guides"
  finished guides
  cat "$logs/guides.log"
fi

step "Documentation"
RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps --quiet

if ! $quick; then
  step "Packages"
  tests/publish.sh --quick

  # Its tests wait for processes of their own about half of the time, and fuzzing for nothing.
  finished wheel-environment
  background wheel tests/python/wheel.sh
  step "Fuzzing"
  nice tests/fuzz.sh 30 | tee "$logs/fuzz.log"

  step "Python package"
  finished wheel
  cat "$logs/wheel.log"

  step "The camera service by clients in Python"
  .venv/bin/python tests/python/triton_client.py "$logs/debug/nae-infer"
  .venv/bin/python tests/python/kserve_client.py "$logs/debug/nae-infer"

  step "Exported models in Python"
  .venv/bin/python tests/python/check_onnx.py models/digits/digits.onnx tests/vectors/images.npy tests/vectors/energies.npy
  for model in "${CARGO_TARGET_DIR:-target}"/tmp/architectures/*.onnx; do
    .venv/bin/python tests/python/check_onnx.py "$model" "${model%.onnx}.images.npy" "${model%.onnx}.energies.npy"
  done
fi

step "All passed"
if ! $quick; then
  # Of what tests skip, tests/may-be-skipped.txt decides; without a nightly Rust nothing is fuzzed.
  grep '^skipped' "$logs/fuzz.log" || true
fi
