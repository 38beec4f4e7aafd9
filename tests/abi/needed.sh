#!/usr/bin/env bash
# usage: needed.sh LIBRARY [RUNPATH_OF...]: libtrl.so is libtrl.so.0, stays loaded, and needs nothing but the C and C++
# run time and yaml-cpp (Arrow where it was built with it). No library or program named after it has an empty entry in its
# RUNPATH, which would mean the current folder.
set -euo pipefail
library=$1
dynamic=$(readelf -d "$library")
grep -q 'SONAME.*\[libtrl.so.0\]' <<< "$dynamic"
grep -q 'NODELETE' <<< "$dynamic"
needed=$(grep NEEDED <<< "$dynamic" | sed 's/.*\[\(.*\)\]/\1/')
if grep -vE '^(libyaml-cpp|libstdc\+\+|libm|libgcc_s|libc|ld-linux[-a-z0-9_]*|lib(a|t|ub)san|libarrow|libparquet)\.so' <<< "$needed"; then
  echo "libtrl.so needs that library too"
  exit 1
fi
for file in "$@"; do
  path=$(readelf -d "$file" | sed -n 's/.*R\(UN\)\?PATH.*\[\(.*\)\]/\2/p')
  case :$path: in
    ::) ;;  # none
    *::*) echo "$file: an empty entry in its RUNPATH: '$path'"; exit 1 ;;
  esac
done
echo $needed
