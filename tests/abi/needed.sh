#!/usr/bin/env bash
# libtrl.so is libtrl.so.0, needs neither libtorch nor oneDNN nor OpenMP, stays loaded, and holds no path of its build.
set -euo pipefail
library=$1
dynamic=$(readelf -d "$library")
grep -q 'SONAME.*\[libtrl.so.0\]' <<< "$dynamic"
grep -q 'NODELETE' <<< "$dynamic"
if grep -E 'NEEDED.*(torch|c10|dnnl|gomp|iomp|blas)' <<< "$dynamic"; then echo "libtrl.so needs the engine's libraries"; exit 1; fi
grep NEEDED <<< "$dynamic" | sed 's/.*\[\(.*\)\]/\1/' | tr '\n' ' '
echo
