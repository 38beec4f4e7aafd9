#!/usr/bin/env bash
# usage: tests/torch2.sh [TORCH_DIR]
# The engine on a libtorch 2.x: configures with -DTRL_TORCH_DIR, builds, runs the tests of the engine. Without
# TORCH_DIR (a folder with include/ and lib/) the wheel of PyPI is fetched once into the user's cache; its CPU library
# names two of CUDA's profiling libraries, for which functions that do nothing stand in.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.15.0
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/trl/torch-$version
build=build/torch2

fetch() {
  python3 -m pip --version >/dev/null 2>&1 || bash examples/setup.sh python3-pip >&2
  mkdir -p "$(dirname "$cache")"
  local aside
  aside=$(mktemp -d "$cache.XXXXXX")
  echo "fetching torch $version (once)" >&2
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$aside" "torch==$version" >&2 ||
    { rm -rf "$aside"; return 1; }
  python3 - "$aside" <<'PY'
import pathlib, sys, zipfile
aside = pathlib.Path(sys.argv[1])
wheel = next(aside.glob("torch-*.whl"))
wanted = ("torch/include/", "torch/version.py", "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp")
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(aside, [n for n in archive.namelist() if n.startswith(wanted)])
wheel.unlink()
PY
  mv "$aside/torch" "$cache"
  rm -rf "$aside"
}

# stand_in LIBRARY TORCH_LIBRARY: a library of that name with every function that libtorch wants of it.
stand_in() {
  local functions
  functions=$(nm -D --undefined-only "$2" | sed -n "s/^ *U \([A-Za-z0-9_]*\)@$1\$/\1/p")
  { echo "int trl_stand_in(void) { return 1; }"
    for f in $functions; do echo "int $f(void) __attribute__((alias(\"trl_stand_in\")));"; done; } >"$stand_ins/$1.c"
  { echo "$1 { global: *; };"; } >"$stand_ins/$1.map"
  cc -shared -fPIC -Wl,-soname,"$1" -Wl,--version-script="$stand_ins/$1.map" -o "$stand_ins/$1" "$stand_ins/$1.c"
}

torch=${1:-$cache}
if [ ! -e "$torch/include/ATen/ATen.h" ] && { [ $# -gt 0 ] || ! fetch; }; then
  echo "no libtorch 2.x in $torch and none in reach" >&2
  exit 77
fi
stand_ins=$PWD/$build/stand-ins
mkdir -p "$stand_ins"
for library in $(LD_LIBRARY_PATH=$torch/lib ldd "$torch/lib/libtorch_cpu.so" | sed -n 's/^\s*\(\S*\) => not found$/\1/p'); do
  stand_in "$library" "$torch/lib/libtorch_cpu.so"
done
export LD_LIBRARY_PATH=$stand_ins${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cmake -G Ninja -S . -B "$build" -DTRL_TORCH_DIR="$torch" -DTRL_BUILD_BENCH=OFF
ninja -C "$build" -j"$(nproc)"
ctest --test-dir "$build" -j"$(nproc)" -L full -LE single --timeout 1200 --output-on-failure
