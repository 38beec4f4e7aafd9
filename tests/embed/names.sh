#!/usr/bin/env bash
# usage: names.sh NM OUT LIBRARY...: writes a C file that defines every name which the libraries export, each as a
# function that ends the process. Fails if a library exports none.
set -euo pipefail
nm=$1 out=$2
shift 2

# exported LIBRARY: its names, of which the C++ library's own are left out.
exported() {
  local from=-D
  case $1 in *.a) from=-g ;; esac
  "$nm" "$from" --defined-only "$1" | awk 'NF == 3 && $2 ~ /[TWRDBVu]/ { sub(/@.*/, "", $3); print $3 }' |
    grep -vE '^_(init|fini)$|^_ZN?K?St|^_ZT[VISF]*St|^_ZGV|^_ZN9__gnu' | grep -E '^[A-Za-z_][A-Za-z0-9_]*$'
}

for library in "$@"; do
  exported "$library" || { echo "names.sh: $library exports no name" >&2; exit 1; }
done | sort -u | sed 's/.*/void &(void) { abort(); }/' | {
  echo '#include <stdlib.h>'
  cat
  for when in compress_begin compress_end decompress_begin decompress_end; do
    echo "void ZSTD_trace_$when(void) { abort(); }"
  done
} >"$out"
