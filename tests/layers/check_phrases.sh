#!/usr/bin/env bash
# usage: check_phrases.sh PROJECT. Refuses the phrases of phrases.txt in the text of the repository: comments, messages,
# headers, pages. Prints file, line, phrase and replacement of each. Recorded data and fuzz corpora are not searched.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
export LC_ALL=C

roots=()
for root in .github CMakeLists.txt README.md bench bindings examples include pkgconfig src tests; do
  [ ! -e "$root" ] || roots+=("$root")
done
phrases=$(grep -vE '^(#|$)' "$here/phrases.txt")
any=$(cut -f1 <<<"$phrases" | sed 's/.*/(?:&)/' | paste -sd'|')
found=$(grep -rnIHP "$any" --exclude-dir=corpus --include='*.h' --include='*.c' --include='*.cc' --include='*.inc' \
  --include='*.def' --include='*.md' --include='*.sh' --include='*.py' --include='*.cmake' --include='CMakeLists.txt' \
  "${roots[@]}" | grep -v '^tests/golden/' || true)
[ -n "$found" ] || exit 0

while IFS= read -r line; do
  text=${line#*:*:}
  while IFS=$'\t' read -r pattern better; do
    phrase=$(grep -oP "$pattern" <<<"$text" | head -1) || continue
    echo "${line%"$text"} '$phrase' reads like a translation; write: $better"
  done <<<"$phrases"
done <<<"$found"
exit 1
