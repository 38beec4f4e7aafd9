#!/usr/bin/env bash
# hub_cache.sh TRL SERVER: hub_cache.py with the Python that TRL_PARITY_PYTHON names.
set -euo pipefail
cd "$(dirname "$0")"
[ -n "${TRL_PARITY_PYTHON:-}" ] || { echo "TRL_PARITY_PYTHON names no Python with huggingface_hub 2.4"; exit 77; }
"$TRL_PARITY_PYTHON" -c 'import huggingface_hub' || { echo "$TRL_PARITY_PYTHON has no huggingface_hub"; exit 77; }
exec "$TRL_PARITY_PYTHON" hub_cache.py "$1" "$2" ../golden/models/qwen2
