#!/usr/bin/env bash
# Twelve files may name a method, and not thirteen. Comments, longer texts, train/methods and loss do not count.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

mkdir -p "$tree"/src/{config,base,loss,train/methods}
printf 'TRL_METHOD(kOne, one, .tag = "")\nTRL_LATER(kTwo, two)\n' >"$tree/src/config/methods.def"
for i in 1 2 3 4 5 6 7 8 9 10 11; do echo 'bool b = name == "one";' >"$tree/src/base/a$i.cc"; done
echo 'int make_one();' | tee "$tree/src/loss/one.h" >"$tree/src/train/methods/one.cc"
printf 'int a;  // "one", kOne\nauto b = "trl one --help";\nint kOneMore, make_one_of, one;\n' >"$tree/src/base/free.cc"
out=$(bash "$here/check_methods.sh" "$tree") || { echo "refused: $out"; exit 1; }
grep -q '^12 files' <<<"$out" || { echo "not counted: $out"; exit 1; }
for line in 'kTwo | kMore' 'f(make_two());' 'g("two");'; do
  echo "$line" >"$tree/src/base/last.h"
  if out=$(bash "$here/check_methods.sh" "$tree"); then echo "not refused: $line"; exit 1; fi
  grep -qF "src/base/last.h:1:  $line" <<<"$out" || { echo "not named: $out"; exit 1; }
done
