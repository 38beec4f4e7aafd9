#!/usr/bin/env bash
# usage: examples/smollm2.sh [--dataset FILE] [--dataset_columns MAP] [--model DIR|FILE.gguf] [--output_dir DIR]
# SmolLM2 on a file of yours (the shipped rows by default): 20 steps, saves, generates. MAP renames columns, as in
# --dataset_columns '{question: prompt, answer: completion}'.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

model= dataset=$here/data/port_merrow.jsonl output= columns=()
while [ $# -gt 0 ]; do
  case $1 in
    --model) model=${2:?--model needs a path}; shift 2 ;;
    --dataset) dataset=${2:?--dataset needs a path}; shift 2 ;;
    --dataset_columns) columns=(--dataset_columns "${2:?--dataset_columns needs a map}"); shift 2 ;;
    --output_dir) output=${2:?--output_dir needs a path}; shift 2 ;;
    *) sed -n '2p' "$0" | cut -c3-; exit 2 ;;
  esac
done

trl=$(bash "$here/build.sh")
[ -n "$model" ] || model=$(bash "$here/fetch_smollm2.sh")
output=${output:-$here/../build/smollm2}
"$trl" sft --model_name_or_path "$model" --dataset_name "$dataset" "${columns[@]}" --output_dir "$output" --dtype bfloat16 \
  --max_steps 20 --per_device_train_batch_size 4 --learning_rate 1e-4 --max_length 512 --logging_steps 1 --save_strategy no
echo "== the tuned model, asked"
"$trl" generate --model_name_or_path "$output" --chat --prompt "What can you tell me?" --max_new_tokens 60
