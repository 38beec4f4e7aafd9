#!/usr/bin/env bash
# Installs what is missing, builds the libraries and the command, and prints the path of the command. TRL_COMMAND names one
# that is built already.
set -euo pipefail
[ -z "${TRL_COMMAND:-}" ] || { echo "$TRL_COMMAND"; exit 0; }
cd "$(dirname "$0")/.."

bash examples/setup.sh >&2
mkdir -p build
log=build/build.log
echo "building (a few minutes the first time)" >&2
{ cmake -G Ninja -S . -B build/release -DTRL_WERROR=ON && ninja -C build/release trl_command; } >"$log" 2>&1 ||
  { tail -n 40 "$log" >&2; echo "the build failed; the whole log is in $PWD/$log" >&2; exit 1; }
echo "$PWD/build/release/bin/trl"
