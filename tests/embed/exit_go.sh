#!/usr/bin/env bash
# exit_go.sh LIBRARY SOURCE ROUNDS SPAN_MS OUTPUT: a Go process ends, by os.Exit and by its main's return, at moments
# spread over SPAN_MS while a goroutine trains. Skipped (77) without a Go toolchain.
set -euo pipefail
library=$1 source=$2 rounds=$3 span=$4 output=$5
command -v go >/dev/null || { echo "skipped: there is no Go toolchain"; exit 77; }
model=$source/tests/golden/models/qwen2
mkdir -p "$output"
export CGO_ENABLED=1 CGO_CFLAGS="-I$source/include" GO111MODULE=off GOCACHE=$output/cache GOFLAGS=
go build -o "$output/exit_go" "$source/tests/embed/exit_go/main.go"
bad=0
for ((i = 0; i < rounds; ++i)); do
  ms=$(awk "BEGIN {x = $i * 0.6180339887; print $span * (x - int(x))}")
  way=$([ $((i % 2)) = 0 ] && echo exit || echo return)
  rc=0
  timeout 60 "$output/exit_go" "$library" "$model" "$ms" "$output/out" "$way" || rc=$?
  [ $rc = 0 ] || { echo "$way after $ms ms: ends with $rc"; bad=$((bad + 1)); }
done
echo "go: $bad of $rounds rounds failed"
[ $bad = 0 ]
