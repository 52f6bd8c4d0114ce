#!/usr/bin/env bash
# Makes a Python environment that has the packages of a file, where it is not there or the file has changed.
#
#   tests/python/environment.sh FOLDER REQUIREMENTS
#
# By uv, which takes seconds where pip takes minutes of a processor; by pip where uv cannot be had.
set -euo pipefail
uv_version=0.13.9

folder=$1 requirements=$2
cmp -s "$requirements" "$folder/installed" && exit
rm -rf "$folder"
python3 -m venv "$folder"
pip=("$folder/bin/pip" install -q --disable-pip-version-check)
{ "${pip[@]}" "uv==$uv_version" && "$folder/bin/uv" pip install -q --python "$folder/bin/python" -r "$requirements"; } ||
  "${pip[@]}" -r "$requirements"
cp "$requirements" "$folder/installed"
