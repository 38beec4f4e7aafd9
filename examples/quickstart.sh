#!/usr/bin/env bash
# usage: examples/quickstart.sh [--model DIR|FILE.gguf] [--dataset FILE] [--output_dir DIR] [--parquet]
# The main job on real input, from a fresh Debian 12: installs packages, builds, fetches SmolLM2-135M-Instruct, asks it two
# questions, fine-tunes it on 300 rows about a made-up town, and asks again. Where the model is out of reach, the tiny
# test model stands in, and the run is only a smoke run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

model= dataset=$here/data/port_merrow.jsonl output=
while [ $# -gt 0 ]; do
  case $1 in
    --model) model=${2:?--model needs a path}; shift 2 ;;
    --dataset) dataset=${2:?--dataset needs a path}; shift 2 ;;
    --parquet) bash "$here/setup.sh" --parquet; shift ;;  # so that --dataset may be a Parquet file
    --output_dir) output=${2:?--output_dir needs a path}; shift 2 ;;
    *) sed -n '2p' "$0" | cut -c3-; exit 2 ;;
  esac
done

trl=$(bash "$here/build.sh")
if [ -z "$model" ] && ! model=$(bash "$here/fetch_smollm2.sh"); then
  model=$here/../tests/golden/models/qwen2
  echo "SmolLM2 is out of reach: a smoke run with the tiny test model, which learns nothing that makes sense" >&2
fi
output=${output:-$here/../build/quickstart}

# Neither question stands in the rows in these words.
questions=(
  "I hear there is a lighthouse called Gannet Light in Port Merrow. Who is its keeper?"
  "My bicycle and I want to take the Patient Heron. Who is the captain, please?"
)
ask() {
  for question in "${questions[@]}"; do
    echo "  Q: $question"
    echo "  A: $("$trl" generate --model_name_or_path "$1" --chat --prompt "$question" --max_new_tokens 40)"
  done
}

echo "== before"
ask "$model"
echo "== training: $(wc -l <"$dataset") rows"
"$trl" sft --model_name_or_path "$model" --dataset_name "$dataset" --output_dir "$output" --learning_rate 3e-4 \
  --num_train_epochs 3 --lr_scheduler_type cosine --warmup_steps 5 --max_length 256 --gradient_checkpointing false \
  --logging_steps 10 --save_strategy no
echo "== after"
ask "$output"
echo "the model lies in $output"
