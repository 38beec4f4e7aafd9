#!/usr/bin/env bash
# usage: check_comments.sh PROJECT. A comment begins with a verb or the name of the thing, so at most 10 in src and include
# may begin with Of, What, Those or Where: if there are more, it prints them all and fails. First comes a line for each room:
# how many of its lines are comments, and how many of 100 such lines hold words that often make a sentence hard to read.
set -euo pipefail
cd "$1"
export LC_ALL=C

mapfile -t files < <(find include src \( -name '*.h' -o -name '*.hpp' -o -name '*.cc' -o -name '*.inc' -o -name '*.def' \) | sort)
awk '
  FNR == 1 { within = 0; split(FILENAME, path, "/"); room = path[1] "/" path[2] }
  !match($0, /(^|[ \t])\/\/ ?|^ ?\* |^\/\* /) { within = 0; next }
  {
    comment = substr($0, RSTART + RLENGTH)
    alone = substr($0, 1, RSTART - 1) ~ /^[ \t]*$/
    lines[room]++
    hard[room] += gsub(/(^|[^a-z])(what|those|where|whose|alone|beside|stands?|lies?|itself)([^a-z]|$)/, "&", comment)
    if (!(within && alone) && comment ~ /^(Of|What|Those|Where)[^a-z]/) wrong[++count] = FILENAME ":" FNR ": " comment
    within = 1
  }
  END {
    for (room in lines) printf "%-16s %5d lines of comments, %5.1f of 100\n", room, lines[room], 100 * hard[room] / lines[room] | "sort"
    close("sort")
    if (count <= 10) exit 0
    for (i = 1; i <= count; ++i) print wrong[i]
    exit 1
  }' "${files[@]}"
