#!/usr/bin/env bash
# usage: types.sh SOURCE CC [--write]
# The types of every function, callback and constant of trl.h and serve.h, as the debug information of a compiler has them, are
# those of libtrl.abi and libtrl_serve.abi, but for additions: abidiff compares them. The library's own definitions are held to the header by their
# compiler. --write records the present types, after a change that ABI.md announces.
set -euo pipefail
source=$1 cc=$2 write=${3:-}
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "no abidiff: install abigail-tools"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# compare HEADER NAME LEAST: of a header with at least so many functions, against NAME.abi
compare() {
  local header=$1 name=$2 least=$3 count status=0
  sed 's/) TRL_NOEXCEPT;/) { __builtin_trap(); }/' "$source/include/trl/$header" > "$work/$name.c"
  count=$(grep -c '__builtin_trap' "$work/$name.c")
  [ "$count" -ge "$least" ] || { echo "only $count functions found in $header"; exit 1; }
  "$cc" -I"$source/include" -std=c99 -shared -fPIC -g -fno-eliminate-unused-debug-types -Wl,-soname,"$name.so.0" -o "$work/$name.so" "$work/$name.c"
  abidw --load-all-types --no-corpus-path --no-comp-dir-path --no-show-locs "$work/$name.so" > "$work/$name.abi"
  if [ "$write" = --write ]; then
    cp "$work/$name.abi" "$source/tests/abi/$name.abi"
  fi
  # 4: something changed, 8: incompatibly; additions alone are 4, too.
  abidiff --no-added-syms --non-reachable-types "$source/tests/abi/$name.abi" "$work/$name.abi" > "$work/changes" || status=$?
  [ "$status" -eq 0 ] || { cat "$work/changes"; exit 1; }
  echo "$header: $count functions"
}
compare trl.h libtrl 60
compare serve.h libtrl_serve 12
