#!/usr/bin/env bash
# usage: types.sh SOURCE CC [--write]
# The types of every function, callback and constant of trl.h, as the debug information of a compiler has them, are those of
# libtrl.abi, but for additions: abidiff compares them. The library's own definitions are held to the header by their
# compiler. --write records the present types, after a change that ABI.md announces.
set -euo pipefail
source=$1 cc=$2 write=${3:-}
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "no abidiff: install abigail-tools"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed 's/) TRL_NOEXCEPT;/) { __builtin_trap(); }/' "$source/include/trl/trl.h" > "$work/trl.c"
count=$(grep -c '__builtin_trap' "$work/trl.c")
[ "$count" -ge 60 ] || { echo "only $count functions found in the header"; exit 1; }
"$cc" -std=c99 -shared -fPIC -g -fno-eliminate-unused-debug-types -Wl,-soname,libtrl.so.0 -o "$work/libtrl.so" "$work/trl.c"
abidw --load-all-types --no-corpus-path --no-comp-dir-path --no-show-locs "$work/libtrl.so" > "$work/libtrl.abi"
if [ "$write" = --write ]; then
  cp "$work/libtrl.abi" "$source/tests/abi/libtrl.abi"
fi
# 4: something changed, 8: incompatibly; additions alone are 4, too.
status=0
abidiff --no-added-syms --non-reachable-types "$source/tests/abi/libtrl.abi" "$work/libtrl.abi" > "$work/changes" || status=$?
[ "$status" -eq 0 ] || { cat "$work/changes"; exit 1; }
echo "$count functions"
