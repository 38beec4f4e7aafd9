#!/usr/bin/env bash
# usage: coverage.sh API UNCOVERED FILE...: the sources of a binding name every function of api.json that is not
# deprecated, or UNCOVERED has a line for it: the function and why it is left out.
set -euo pipefail
api=$1 uncovered=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n '/^  "functions"/,$ { /"deprecated": null/ s/^ *{"name": "\([a-z0-9_]*\)".*/\1/p }' "$api" | sort > "$work/functions"
count=$(wc -l < "$work/functions")
[ "$count" -ge 60 ] || { echo "only $count functions in $api"; exit 1; }
grep -ohwE 'trl_[a-z0-9_]+' "$@" | sort -u > "$work/named"
{ grep -vE '^(#|$)' "$uncovered" || true; } | while read -r name reason; do
  [ -n "$reason" ] || { echo "$uncovered: $name has no reason" >&2; exit 1; }
  echo "$name"
done | sort > "$work/excused"
left=$(comm -23 "$work/functions" "$work/named" | comm -23 - "$work/excused")
[ -z "$left" ] || { echo "$left" | sed "s@.*@& is neither used nor in $uncovered@"; exit 1; }
stale=$(comm -12 "$work/excused" "$work/named"; comm -13 "$work/functions" "$work/excused")
[ -z "$stale" ] || { echo "$stale" | sed "s@.*@$uncovered: & is used, or is not a function@"; exit 1; }
echo "$((count - $(wc -l < "$work/excused"))) of $count functions"
