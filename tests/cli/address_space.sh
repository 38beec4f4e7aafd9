#!/usr/bin/env bash
# address_space.sh COMMAND SOURCE: with each limit of the address space, from too little for the libraries to enough, a run that
# decomposes weights (PiSSA) ends, well or with one error: OpenBLAS by itself tries for ever where it finds no room.
set -euo pipefail
command=$1 source=$2
[ -e "$source/tests/golden/models/qwen2/model.safetensors" ] || { echo "no model"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2
buffers=0
for ((limit = 300000; limit < 3000000; limit += 50000)); do
  status=0
  (ulimit -v "$limit" && exec timeout -s KILL 60 "$command" sft --model_name_or_path "$source/tests/golden/models/qwen2" --use_peft true \
    --peft_config '{"init_lora_weights": "pissa"}' --dataset_name "$source/examples/c/sft/rows.jsonl" --max_steps 1 \
    --report_to none --output_dir "$work/out") > "$work/said" 2>&1 || status=$?
  if [ "$status" -eq 0 ]; then
    [ "$buffers" -gt 0 ] || { echo "no limit was refused"; exit 1; }
    echo "enough: $limit KB; $buffers limits were refused"
    exit 0
  fi
  [ "$status" -lt 126 ] || [ "$status" -eq 127 ] || { cat "$work/said"; echo "$limit KB: ended with $status"; exit 1; }
  if grep -q "no address space for the engine" "$work/said"; then
    buffers=$((buffers + 1))
    [ "$(grep -c 'error:' "$work/said")" -eq 1 ] || { cat "$work/said"; exit 1; }
  fi
done
echo "3 GB are not enough"
exit 1
