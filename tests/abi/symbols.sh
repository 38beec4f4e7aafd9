#!/usr/bin/env bash
# header == version script == symbols.txt == what the library exports
set -euo pipefail
source=$1 library=$2 nm=$3
. "$source/tests/abi/functions.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
header_functions "$source/include/trl/trl.h" > "$work/header"
sed -n 's/^ *\(trl_[a-z0-9_]*\);$/\1/p' "$source/src/capi/trl.map" | grep -v '^trl_private_serve$' | sort > "$work/map"
sed -n 's/^\(trl_[a-z0-9_]*\) [0-9.]* [-0-9.]*$/\1/p' "$source/tests/abi/symbols.txt" | sort > "$work/list"
"$nm" -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | grep -v '^trl_private_serve$' | sort > "$work/library"
count=$(wc -l < "$work/header")
[ "$count" -ge 60 ] || { echo "only $count functions found in the header"; exit 1; }
for other in map list library; do
  diff "$work/header" "$work/$other" || { echo "the header and the $other differ"; exit 1; }
done
size=$(stat -Lc %s "$library")
echo "$count functions, $size bytes"
