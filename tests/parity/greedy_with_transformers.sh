#!/usr/bin/env bash
# greedy_with_transformers.sh TRL: greedy_with_transformers.py on the model that TRL_PARITY_MODEL names, with the Python that
# TRL_PARITY_PYTHON names.
set -euo pipefail
cd "$(dirname "$0")"
[ -n "${TRL_PARITY_PYTHON:-}" ] || { echo "TRL_PARITY_PYTHON names no Python with transformers 5.23.0"; exit 77; }
[ -n "${TRL_PARITY_MODEL:-}" ] || { echo "TRL_PARITY_MODEL names no directory of a model with its tokenizer"; exit 77; }
exec "$TRL_PARITY_PYTHON" greedy_with_transformers.py "$1" "$TRL_PARITY_MODEL"
