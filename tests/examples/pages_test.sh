#!/usr/bin/env bash
# usage: pages_test.sh SOURCE BUILD
# The target that examples/build.sh builds makes the manual pages and completions, which `cmake --install` then finds.
set -euo pipefail
target=$(sed -n 's/.*ninja -C build\/release \([a-z_]*\);.*/\1/p' "$1/examples/build.sh")
[ -n "$target" ] || { echo "examples/build.sh builds no target that this test can read"; exit 1; }
[ -e "$2/build.ninja" ] || { echo "the build is not ninja's"; exit 77; }
steps=$(ninja -C "$2" -t commands "$target")
for made in 'trl man --output' 'completion bash' 'completion zsh' 'completion fish' 'libtrl_engine.so'; do
  grep -qF -- "$made" <<<"$steps" || { echo "$target: $made is not made"; exit 1; }
done
