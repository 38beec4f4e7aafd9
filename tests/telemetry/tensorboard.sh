#!/usr/bin/env bash
# usage: tensorboard.sh TRL WORK_DIR
# A run with report_to tensorboard, read back by the tensorboard that pip has. Skipped where pip cannot reach one.
set -euo pipefail
trl=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
data=$here/../golden
mkdir -p "$work"
python=$work/venv/bin/python
if ! "$python" -c 'import tensorboard' 2>/dev/null; then
  { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check tensorboard; } >"$work/pip.log" 2>&1 ||
    { echo "skipped: pip cannot install tensorboard, see $work/pip.log"; exit 77; }
fi
rm -rf "$work/run"
"$trl" sft --model_name_or_path "$data/models/qwen2" --dataset_name "$data/data/datasets/train_lm.jsonl" \
  --eval_dataset_name "$data/data/datasets/train_lm.jsonl" --eval_strategy steps --eval_steps 3 --output_dir "$work/run" \
  --bf16 false --logging_steps 1 --max_steps 6 --report_to tensorboard
"$python" "$here/tensorboard_check.py" "$work/run"
