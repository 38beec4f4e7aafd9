#!/usr/bin/env bash
# usage: check_inc.sh PROJECT CXX. Each *_cpu.inc includes what it uses, so that an editor can open it by itself: every one
# compiles alone, with the vectors of any machine.
set -euo pipefail
cd "$1"
bad=0 files=0
while IFS= read -r file; do
  case $file in */table_cpu.inc) continue ;; esac
  files=$((files + 1))
  "$2" -std=c++20 -fsyntax-only -w -x c++ -Isrc "$file" || { echo "$file does not compile by itself"; bad=1; }
done < <(find src/kernels -name '*_cpu.inc' | sort)
echo "$files files compile by themselves"
[ $files -gt 10 ] && [ $bad -eq 0 ]
