#!/usr/bin/env bash
# usage: progress_test.sh PROJECT. What examples/progress.sh makes of the output of ninja, ctest and apt-get.
set -euo pipefail
cd "$1"
# at_start: replaces times by 0:00, since a second may pass meanwhile.
at_start() { sed -E 's/, 0:[0-9]{2}/, 0:00/g'; }
# expect WANTED LABEL: with the output of a command on stdin
expect() {
  local got
  got=$(bash examples/progress.sh "$2" 2>&1 | at_start)
  [ "$got" = "$1" ] || { echo "'$got' instead of '$1'"; exit 1; }
}
printf '[0/2] Re-checking globbed directories...\n[312/900] Building a\n[313/900] Building b\n' | expect 'building: 312 of 900, 0:00' building
printf 'Test project x\n 400/1029 Test #7: a ... Passed\n' | expect 'release, tests: 400 of 1029, 0:00' 'release, tests'
printf 'Get:1 lists\n0 upgraded, 8 newly installed, 0 to remove.\nGet:1 a\n' |
  expect 'installing: 1 of 8 packages fetched, 0:00' installing
printf '[warning] 1/2\n' | expect '' building
script -qec true /dev/null >/dev/null 2>&1 || { echo 'no pseudo-terminal can be made here'; exit 77; }
drawn=$(script -qec "printf '[1/2] a\n[2/2] b\n' | bash examples/progress.sh building" /dev/null | at_start)
[ "$drawn" = $'\r\e[Kbuilding: 1 of 2, 0:00\r\e[Kbuilding: 2 of 2, 0:00\r\e[K' ] ||
  { printf 'on a terminal: %q\n' "$drawn"; exit 1; }
