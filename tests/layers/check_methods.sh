#!/usr/bin/env bash
# usage: check_methods.sh PROJECT. A method is one row of src/config/methods.def, so at most 12 files of src outside
# train/methods and loss may name one: if there are more, it prints every such line and fails. A line names a method if,
# apart from comments, it has the name of a row as a whole string ("dpo"), its bit (kDpo) or its factory (make_dpo). A name
# within a longer string, such as a command line in a help text, does not count: no code depends on it.
set -euo pipefail
cd "$1"
export LC_ALL=C

column() { sed -nE 's/^TRL_(METHOD|LATER)\((k[A-Za-z0-9]+), ([a-z0-9_]+)[,)].*/\'"$1"'/p' src/config/methods.def | paste -sd'|'; }
bits=$(column 2) names=$(column 3)
[ -n "$names" ] || { echo "src/config/methods.def: no row"; exit 1; }
name="\"($names)\"|(^|[^A-Za-z0-9_])(($bits)|make_($names))([^A-Za-z0-9_]|\$)"

found=$(find src -type f \( -name '*.h' -o -name '*.cc' -o -name '*.inc' -o -name '*.def' -o -name '*.cmake' \) \
  ! -path 'src/train/methods/*' ! -path 'src/loss/*' -print0 | sort -z |
  xargs -0 awk '{ sub(/(^|[ \t])\/\/ .*/, ""); print FILENAME ":" FNR ":  " $0 }' | grep -E "^[^ ]+ .*($name)" || true)
files=$(cut -d: -f1 <<<"$found" | uniq | wc -l)
echo "$files files outside train/methods and loss name a method (at most 12)"
[ "$files" -le 12 ] || { echo "$found"; exit 1; }
