#!/usr/bin/env bash
# Records the cases of tests/golden/families, and of the tokenizers that record_tokenizers.py trained, again with the Python
# that TRL_PARITY_PYTHON names (see README.md), and compares every byte.
set -euo pipefail
cd "$(dirname "$0")"
[ -n "${TRL_PARITY_PYTHON:-}" ] ||
  { echo "TRL_PARITY_PYTHON names no Python with transformers 5.23.0 and tokenizers 0.23.3"; exit 77; }
"$TRL_PARITY_PYTHON" record.py --check ../golden/families
"$TRL_PARITY_PYTHON" record_tokenizers.py --check ../golden/tokenizers
"$TRL_PARITY_PYTHON" record_classes.py --check ../golden/tokenizers
