#!/usr/bin/env bash
# usage: serve.sh SOURCE LIBRARY NM: the functions of trl/serve.h are those of serve.map, those of serve_symbols.txt and those
# that libtrl_serve.so exports,
# each is noexcept and, if it returns a status, one call of the guard; the library stays loaded and needs libtrl.so.
set -euo pipefail
source=$1 library=$2 nm=$3
. "$source/tests/abi/functions.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
header_functions "$source/include/trl/serve.h" > "$work/header"
sed -n 's/^ *\(trl_[a-z0-9_]*\);$/\1/p' "$source/src/serve/serve.map" | sort > "$work/map"
sed -n 's/^\(trl_[a-z0-9_]*\) [0-9.]* [-0-9.]*$/\1/p' "$source/tests/abi/serve_symbols.txt" | sort > "$work/list"
"$nm" -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort > "$work/library"
for other in map list library; do
  diff "$work/header" "$work/$other" || { echo "the header and the $other differ"; exit 1; }
done
while read -r name; do
  body=$(tr '\n' ' ' < "$source/src/serve/capi.cc" | grep -o "[ *]$name([^{};]*) noexcept { *[^;]*;" || true)
  case $name:$body in
    trl_server_cancel:?* | trl_server_destroy:?*) ;;
    *"return guard("*) ;;
    *"_server = nullptr;" | *"out_json = nullptr;") ;;  # then the guard
    *) echo "$name: no guard: '$body'"; exit 1 ;;
  esac
done < "$work/header"
dynamic=$(readelf -d "$library")
grep -q 'SONAME.*\[libtrl_serve.so.0\]' <<< "$dynamic"
grep -q 'NODELETE' <<< "$dynamic"
needed=$(grep NEEDED <<< "$dynamic" | sed 's/.*\[\(.*\)\]/\1/')
if grep -vE '^(libtrl|libyaml-cpp|libstdc\+\+|libm|libgcc_s|libc|ld-linux[-a-z0-9_]*|lib(a|t|ub)san|libarrow|libparquet)\.so' <<< "$needed"; then
  echo "libtrl_serve.so needs that library too"
  exit 1
fi
echo "$(wc -l < "$work/header") functions"
