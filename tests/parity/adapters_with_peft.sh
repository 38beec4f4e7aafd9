#!/usr/bin/env bash
# adapters_with_peft.sh TRL LOGITS: adapters_with_peft.py on a small model, with the Python that TRL_PARITY_PYTHON names.
set -euo pipefail
cd "$(dirname "$0")"
[ -n "${TRL_PARITY_PYTHON:-}" ] || { echo "TRL_PARITY_PYTHON names no Python with peft 0.21.2"; exit 77; }
"$TRL_PARITY_PYTHON" -c 'import peft' || { echo "$TRL_PARITY_PYTHON has no peft"; exit 77; }
exec "$TRL_PARITY_PYTHON" adapters_with_peft.py "$1" "$2" ../golden/models/qwen2
