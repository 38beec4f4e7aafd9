#!/usr/bin/env bash
# two_guests.sh PROGRAM LIBRARIES SOURCE: the libraries of a build, and a copy of them in another folder with other build ids.
set -euo pipefail
program=$1 libraries=$2 source=$3
[ -e "$source/tests/golden/models/qwen2/model.safetensors" ] || { echo "no model"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$libraries" "$work/lib"
bash "$source/tests/embed/other_build.sh" "$work/lib"
"$program" "$libraries/libtrl.so.0" "$work/lib/libtrl.so.0" "$source" "$work"
