#!/usr/bin/env bash
# Ten comments may begin with a word that check_comments.sh counts, and not eleven; a line within a comment may.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

mkdir -p "$tree/include" "$tree/src/base"
for i in 1 2 3 4 5 6 7 8 9 10; do printf '// Of %s\nint a%s;\n' $i $i; done >"$tree/src/base/a.h"
printf '// Returns the number\n// Of that row.\nint b;  // the last\n' >>"$tree/src/base/a.h"
out=$(bash "$here/check_comments.sh" "$tree") || { echo "refused: $out"; exit 1; }
grep -q '^src/base  *13 lines' <<<"$out" || { echo "not counted: $out"; exit 1; }
printf 'int c;  // Where it is\n' >>"$tree/src/base/a.h"
if out=$(bash "$here/check_comments.sh" "$tree"); then echo "not refused: $out"; exit 1; fi
grep -q '^src/base/a.h:24: Where it is$' <<<"$out" || { echo "not named: $out"; exit 1; }
