#!/usr/bin/env bash
# Records the cases of tests/data/families again with the Python that TRL_PARITY_PYTHON names (transformers 5.23.0 and
# PyTorch 2.15.0) and compares every byte.
set -euo pipefail
cd "$(dirname "$0")"
[ -n "${TRL_PARITY_PYTHON:-}" ] ||
  { echo "TRL_PARITY_PYTHON names no Python with transformers 5.23.0 and PyTorch 2.15.0"; exit 77; }
"$TRL_PARITY_PYTHON" record.py --check ../data/families
