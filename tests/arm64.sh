#!/usr/bin/env bash
# usage: tests/arm64.sh BUILD_DIR
# The torch-free kernels and optimizers, and the codes that they share, cross-compiled for arm64, with 128-bit vectors and
# without any, and linked, so that nothing of another instruction set is left in them. Needs g++-aarch64-linux-gnu, which
# is installed when it can be.
set -euo pipefail
cd "$(dirname "$0")/.."
compiler=aarch64-linux-gnu-g++
command -v $compiler >/dev/null || bash examples/setup.sh g++-aarch64-linux-gnu >&2 || true
command -v $compiler >/dev/null || { echo "no $compiler here" >&2; exit 77; }

flags=(-std=c++20 -O3 -fno-math-errno -fno-trapping-math -fPIC -fopenmp -Isrc -Iinclude
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-stringop-overflow -Werror)
for mode in vectors scalar; do
  out=$1/arm64/$mode
  rm -rf "$out"
  mkdir -p "$out"
  mode_flags=()
  [ $mode = scalar ] && mode_flags=(-DTRL_CPU_SCALAR -fno-tree-vectorize)
  for source in src/base/arithmetic/isa.cc src/io/four_bit.cc src/kernels/*/*_cpu*.cc src/optim/*_cpu*.cc; do
    $compiler "${flags[@]}" "${mode_flags[@]}" -c "$source" -o "$out/$(basename "$source").o"
  done
  $compiler -shared -fopenmp -Wl,-z,defs -o "$out/kernels.so" "$out"/*.o
  echo "$mode: $(ls "$out"/*.o | wc -l) files"
done
