#!/usr/bin/env bash
# Installs what is missing, builds the libraries, the command and its manual pages, and prints the path of the command. TRL_COMMAND names one
# that is built already. With Arrow in build/arrow (setup.sh --parquet), Parquet files are read.
set -euo pipefail
[ -z "${TRL_COMMAND:-}" ] || { echo "$TRL_COMMAND"; exit 0; }
cd "$(dirname "$0")/.."

bash examples/setup.sh >&2
mkdir -p build
log=build/build.log
arrow=()
[ ! -d build/arrow/pyarrow ] || arrow=("-DTRL_ARROW_DIR=$PWD/build/arrow/pyarrow")
{ cmake -G Ninja -S . -B build/release -DTRL_WERROR=ON "${arrow[@]}" && ninja -C build/release trl_pages; } 2>&1 | tee "$log" |
  bash examples/progress.sh building ||
  { tail -n 40 "$log"; echo "the build failed; the whole log is in $PWD/$log"; exit 1; } >&2
echo "$PWD/build/release/bin/trl"
