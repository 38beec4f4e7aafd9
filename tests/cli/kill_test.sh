#!/usr/bin/env bash
# usage: kill_test.sh TRL METHOD KILLS
# Kills a run of METHOD (grpo, rloo, gkd, distillation, online-dpo, ppo) at random moments, in generation, in its reward
# and in updates, and starts it again each time. It ends with the weights of the run that was left alone.
set -euo pipefail
trl=$(realpath "$1") method=$2 kills=$3
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export HOME=$scratch  # prepared rows are kept there
die() { echo "$*" >&2; tail -n 5 err >&2; exit 1; }

for i in 1 2 3 4 5 6 7 8; do
  echo "{\"prompt\": \"Tell me of the sea in $i words:\"}" >>prompts.jsonl
  echo "{\"messages\": [{\"role\": \"user\", \"content\": \"Tell me of sea $i:\"}, {\"role\": \"assistant\", \"content\": \"It is wide.\"}]}" >>chats.jsonl
done
cat >score.sh <<'END'
while read -r line; do
  sleep 0.05
  sum=$(printf %s "$line" | cksum)
  sum=${sum%% *}
  echo "[$((sum % 7)), $((sum / 7 % 7)), $((sum / 49 % 7)), $((sum / 343 % 7))]"
done
END
models=$here/../golden/models rows=prompts.jsonl
[ "$method" != gkd ] || rows=chats.jsonl
command=("$trl" "$method" --model_name_or_path "$models/qwen2" --dataset_name "$rows" --bf16 false --learning_rate 1e-3
         --save_steps 2 --save_total_limit 2 --resume_from_checkpoint auto --quiet)
case $method in
  gkd | distillation) command+=(--teacher_model_name_or_path "$models/qwen3") ;;
  *) command+=(--reward_funcs 'score=command:sh score.sh') ;;
esac
case $method in
  gkd) command+=(--per_device_train_batch_size 2 --gradient_accumulation_steps 2 --max_new_tokens 40 --lmbda 0.5
                 --seq_kd true --max_steps 24) ;;
  distillation) command+=(--per_device_train_batch_size 2 --gradient_accumulation_steps 2 --max_completion_length 40
                          --max_steps 24) ;;
  online-dpo) command+=(--per_device_train_batch_size 2 --max_new_tokens 40 --beta 0.1 0.5 --max_steps 24) ;;
  grpo) command+=(--per_device_train_batch_size 2 --steps_per_generation 2 --num_generations 4 --max_completion_length 40
                  --num_iterations 2 --beta 0.1 --max_steps 24) ;;
  rloo) command+=(--per_device_train_batch_size 4 --num_generations 4 --max_completion_length 40 --num_iterations 2
                  --max_steps 24) ;;
  ppo) command+=(--per_device_train_batch_size 4 --response_length 40 --num_sample_generations 0 --max_steps 12) ;;
esac

began=${EPOCHREALTIME/./}
"${command[@]}" --output_dir whole >out 2>err || die "the run alone failed"
whole=$((${EPOCHREALTIME/./} - began))  # microseconds
RANDOM=20261128
ended=0 done=0
while [ "$done" -lt "$kills" ] || [ "$ended" -eq 0 ]; do
  "${command[@]}" --output_dir killed >out 2>err &
  if [ "$done" -lt "$kills" ]; then
    moment=$((RANDOM * whole / 32768))
    sleep "$((moment / 1000000)).$(printf %06d $((moment % 1000000)))"
    kill -KILL $! 2>/dev/null || true
  fi
  status=0
  wait $! 2>/dev/null || status=$?
  if [ "$status" -eq 137 ]; then
    done=$((done + 1))
    continue
  fi
  [ "$status" -eq 0 ] || die "after $done kills the run failed: $status"
  cmp whole/model.safetensors killed/model.safetensors || die "after $done kills the weights differ"
  ! ls killed | grep '\.tmp$' || die "a file of a save that was killed"
  ended=$((ended + 1))
  rm -rf killed
done
echo "$done kills, $ended runs ended with the same weights"
