#!/usr/bin/env bash
# usage: names.sh NM OUT LIBRARY...: writes a C file that defines every name which the libraries export, each as a
# function that ends the process.
set -euo pipefail
nm=$1 out=$2
shift 2
{
  echo '#include <stdlib.h>'
  for library in "$@"; do
    case $library in
      *.a) "$nm" -g --defined-only "$library" ;;
      *) "$nm" -D --defined-only "$library" ;;
    esac
  done | awk 'NF == 3 && $2 ~ /[TWRDBVu]/ { sub(/@.*/, "", $3); print $3 }' | sort -u |
    grep -vE '^_(init|fini)$|^_ZN?K?St|^_ZT[VISF]*St|^_ZGV|^_ZN9__gnu' | grep -E '^[A-Za-z_][A-Za-z0-9_]*$' |
    sed 's/.*/void &(void) { abort(); }/'
  for when in compress_begin compress_end decompress_begin decompress_end; do
    echo "void ZSTD_trace_$when(void) { abort(); }"
  done
} > "$out"
[ "$(wc -l < "$out")" -ge 500 ] || { echo "names.sh: only $(wc -l < "$out") names found"; exit 1; }
