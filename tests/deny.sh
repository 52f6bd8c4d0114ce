#!/usr/bin/env bash
# Licences, sources and known vulnerabilities of all that the project depends on, by cargo-deny with the settings of
# deny.toml. Not part of tests/run.sh: the list of vulnerabilities comes from github.com, and cargo-deny takes some minutes
# to build where it is missing.
#
#   tests/deny.sh              everything
#   tests/deny.sh --offline    without vulnerabilities
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
checks=(advisories bans licenses sources)
case ${1:-} in
  '') ;;
  --offline) checks=(bans licenses sources) ;;
  -h | --help) sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  *) echo "unknown argument: $1; see $0 --help" >&2; exit 2 ;;
esac
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
deny=$(command -v cargo-deny || echo "$tools/bin/cargo-deny")
[ -x "$deny" ] || cargo install --quiet --locked --root "$tools" "cargo-deny@$version"
exec "$deny" check "${checks[@]}"
