#!/usr/bin/env bash
# exit_node.sh LIBRARY SOURCE ROUNDS SPAN_MS OUTPUT: a Node process ends, by process.exit and by an exception, at moments
# spread over SPAN_MS while threads of its pool train. Skipped (77) without Node or its headers.
set -euo pipefail
library=$1 source=$2 rounds=$3 span=$4 output=$5
command -v node >/dev/null || { echo "skipped: there is no Node"; exit 77; }
headers=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")/include/node
[ -e "$headers/node_api.h" ] || headers=/usr/include/node
[ -e "$headers/node_api.h" ] || { echo "skipped: Node's headers are not installed"; exit 77; }
mkdir -p "$output"
cc -Wall -Wextra -Werror -shared -fPIC -I"$headers" -I"$source/include" -o "$output/addon.node" \
  "$source/tests/embed/exit_node/addon.c" "$library" -Wl,-rpath,"$(dirname "$library")"
bad=0 slowest=0
for ((i = 0; i < rounds; ++i)); do
  ms=$(awk "BEGIN {x = $i * 0.6180339887; print int($span * (x - int(x)))}")
  case $((i % 3)) in 0) way=training code=7 ;; 1) way=exit code=7 ;; *) way=throw code=1 ;; esac
  rc=0
  began=$(timeout 60 node "$source/tests/embed/exit_node/main.js" "$output/addon.node" "$source/tests/golden/models/qwen2" \
    "$output/out" "$ms" "$way" 2>"$output/stderr") || rc=$?
  took=$(($(date +%s%3N) - ${began:-0}))
  if [ $rc != $code ] || [ $took -gt 10000 ]; then
    echo "$way after $ms ms: ends with $rc after $took ms"; cat "$output/stderr"; bad=$((bad + 1))
  fi
  [ $took -le $slowest ] || slowest=$took
done
echo "node: $bad of $rounds rounds failed, the slowest end took $slowest ms"
[ $bad = 0 ]
