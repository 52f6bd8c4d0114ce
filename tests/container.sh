#!/usr/bin/env bash
# Builds the container image of the camera service, and runs what is in it as its description says: a read-only root, a user
# without rights, state in one folder. By bubblewrap, which needs no daemon and no root; that a container engine runs it is not
# tried here. Not part of tests/run.sh: it makes a release build.
#
# Needs buildah and bubblewrap (Debian's packages), and a kernel with user namespaces.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,6p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;; esac
cd "$(dirname "$0")/.."

missing=()
command -v buildah >/dev/null || missing+=(buildah)
command -v bwrap >/dev/null || missing+=(bubblewrap)
if [ ${#missing[@]} -gt 0 ]; then
  echo "Missing: ${missing[*]}. On Debian: apt-get install ${missing[*]}" >&2
  exit 1
fi
# Needs no support from the kernel.
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}
name=localhost/nae-infer-test
crates/nae-serve/packaging/container/build.sh $name

folder=$(mktemp -d)
container=
cleanup() {
  [ -z "${service:-}" ] || kill -KILL "$service" 2>/dev/null || true
  [ -z "$container" ] || buildah rm "$container" >/dev/null
  buildah rmi $name >/dev/null
  rm -rf "$folder"
}
trap cleanup EXIT
container=$(buildah from $name)
root=$(buildah mount "$container")
buildah inspect --format '{{.Docker.Config.User}} {{.Docker.Config.Healthcheck}} {{.Docker.Config.Entrypoint}}' $name
buildah images --format '{{.Name}}: {{.Size}}' $name

fail() { echo "$1" >&2; cat "$folder/log" >&2; exit 1; }
mkdir -p "$folder/state" "$folder/frames"
chmod 777 "$folder/state"
cp models/digits/images/*.png "$folder/frames/"
echo secret >"$folder/token"
# The addresses of the image's description, but for the port, which may be taken here.
port=18080
inside=(bwrap --unshare-user --unshare-pid --die-with-parent --uid 65532 --gid 65532 --ro-bind "$root" / --bind "$folder/state" /state
  --dev /dev --clearenv --setenv NAE_INFER_LISTEN "0.0.0.0:$port" --setenv NAE_INFER_STATE /state)
mkdir -p "$root/dev" "$root/frames"
touch "$root/model.onnx" "$root/token"
"${inside[@]}" --ro-bind models/digits/digits.onnx /model.onnx --ro-bind "$folder/frames" /frames --ro-bind "$folder/token" /token \
  /nae-infer serve --model /model.onnx --source folder:/frames --token-file /token --alarm-raise 1 --alarm-clear 0 --alarm-window 1 \
  >"$folder/log" 2>&1 &
service=$!
for _ in $(seq 100); do
  if "${inside[@]}" /nae-infer health "http://127.0.0.1:$port" 2>/dev/null; then break; fi
  kill -0 $service 2>/dev/null || fail "the service ended"
  sleep 0.1
done
"${inside[@]}" /nae-infer health "http://127.0.0.1:$port" || fail "the service does not become ready"
answer=$(curl -sf -H 'Authorization: Bearer secret' --data-binary @models/digits/images/checkerboard.png "http://127.0.0.1:$port/score") ||
  fail "an image is not scored"
[[ $answer == *'"verdict":"anomaly"'* ]] || fail "a checkerboard is no anomaly: $answer"
[ "$(curl -s -o /dev/null -w '%{http_code}' --data-binary @models/digits/images/six.png "http://127.0.0.1:$port/score")" = 401 ] ||
  fail "it scores for whom has no token"
kill -TERM $service
wait $service 2>/dev/null || true
# State is where it was mounted; nothing else could be written.
[ -n "$(ls "$folder/state")" ] || fail "nothing was written to /state"
"${inside[@]}" /nae-infer man /elsewhere 2>"$folder/log" && fail "the root can be written to"
grep -q 'Read-only file system' "$folder/log" || fail "the root refuses for another reason"
! "${inside[@]}" /nae-infer health "http://127.0.0.1:$port" 2>/dev/null || fail "it answers after its end"
echo "container: ready, scored, stopped"
