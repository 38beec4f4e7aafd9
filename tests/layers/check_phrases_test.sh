#!/usr/bin/env bash
# The phrase check must name file, line, phrase and replacement of each phrase, and leave good English alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

write() { # FILE TEXT: the tree holds this file alone
  rm -rf "${tree:?}"/*
  mkdir -p "$tree/$(dirname "$1")"
  printf '\n%s\n' "$2" >"$tree/$1"
}
refused() { # FILE TEXT PHRASE REPLACEMENT
  write "$1" "$2"
  if out=$(bash "$here/check_phrases.sh" "$tree"); then echo "not found: $2"; exit 1; fi
  grep -qF "$1:2: '$3' reads like a translation; write: $4" <<<"$out" || { echo "expected '$3' in: $out"; exit 1; }
}
accepted() { # FILE TEXT
  write "$1" "$2"
  out=$(bash "$here/check_phrases.sh" "$tree") || { echo "refused: $out"; exit 1; }
}
no="is no" go="go on" one="one behind" # not whole phrases, or this file would be refused itself
refused src/a.cc "fail(\"{} $no directory\");" "$no directory" "is not a ..."
refused include/a.h "// what it would $go from" "$go from" "resume from"
refused README.md "Rows lie $one the other." "$one the other" "one after the other"
refused src/config/a.def "\"The script $no Python.\"" "$no Python" "is not a ..."
accepted src/a.cc "// there $no such file, and it $no longer read"
accepted src/a.cc "// none of these
// $no word at the start of a line"
accepted README.md "Once upon a time, the begin token comes first; leave nothing behind."
accepted tests/golden/a.md "Recorded text $no text of ours."
