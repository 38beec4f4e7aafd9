#!/usr/bin/env bash
# usage: cli_test.sh TRL CASE
set -euo pipefail
trl=$1
project=$(cd "$(dirname "$0")/../.." && pwd)
data=$project/tests/golden
model=$data/models/qwen2
rows=$data/data/datasets/train_lm.jsonl
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export HOME=$dir  # prepared rows are kept there
export TRL_HUB=off  # names of the hub: hub/hub_test.sh

die() { echo "FAILED: $*" >&2; [ -s out ] && sed 's/^/out: /' out >&2; [ -s err ] && sed 's/^/err: /' err >&2; exit 1; }
# run EXPECTED_CODE ARGUMENTS...: output in out and err
run() {
  local want=$1 code=0
  shift
  "$trl" "$@" >out 2>err || code=$?
  [ "$code" -eq "$want" ] || die "trl $*: exit code $code, expected $want"
}
trainers=(sft dpo reward kto grpo rloo distillation gkd online-dpo ppo)
commands=("${trainers[@]}" validate estimate rows profile template tokenize generate chat vllm-serve eval convert download options env completion man help version)
says() { grep -qF -- "$2" "$1" || die "$1 lacks: $2"; }
sft=(sft --model_name_or_path "$model" --dataset_name "$rows" --output_dir model --bf16 false
     --train_sampling_strategy sequential --per_device_train_batch_size 4 --learning_rate 2e-3 --logging_steps 1)

case_bare_shows_what_there_is() {
  local command
  run 0; [ ! -s err ]
  for command in "${commands[@]}"; do grep -qE "^  $command  " out || die "no column of $command"; done
}
case_version() { run 0 --version; grep -qE '^trl [0-9]+\.[0-9]+\.[0-9]+$' out || die "version"; }
case_every_command_has_a_help() {
  local command
  for command in "${commands[@]}"; do
    run 0 "$command" --help; says out "usage: trl $command"; [ "$(wc -l <out)" -le 45 ] || die "$command: more than a screen"
    [ "$(wc -L <out)" -le 80 ] || die "$command: wider than 80 columns"
    mv out want; run 0 help "$command"; cmp out want
  done
}
case_a_trainers_screen_has_only_its_flags() {
  local command flag
  for command in "${trainers[@]}"; do
    run 0 "$command" --help-all; mv out all; run 0 "$command" --help
    for flag in $(sed -nE 's/^  (-q, )?--([a-z0-9_]+).*/\2/p' out); do
      grep -qE "^  (-q, )?--$flag( |\$)" all || die "$command has no --$flag"
    done
  done
}
case_help_all_has_every_key_by_topic() {
  run 0 sft --help-all; says out "Batches and length"; says out "--learning_rate"; says out "--chat_template"
  says out "--run_name TEXT  [null]  (ignored)"; says out "--fsdp LIST  [null]  (refused)"; says out "(refused in part)"
  says out "Refused, except for"; says out "Ignored with a warning"; [ "$(wc -l <out)" -gt 500 ] || die "few lines"
  run 0 sft --help; ! grep -q -- --fsdp out || die "the screen has more than what is common"; says out "--help-all"
}
case_options_shows_one_key() {
  run 0 options learning_rate; says out "2e-05; distillation, dpo, grpo, kto: 1e-06"; says out "works"; says out "number"
  run 0 options --optim; says out "galore_adamw"; says out "Refused, except for"
  run 0 options max_seq_length; says out "max_length"
  run 0 options loss_type; says out "dpo:"
  run 2 options learning_rat; says err "did you mean learning_rate?"
}
case_options_writes_the_schema() {
  run 1 options --schema nothing; says err "'nothing' is not one; accepted: sft, dpo"
  run 0 options --schema; says out '"$schema": "https://json-schema.org/draft/2020-12/schema"'; says out '"runtime.threads"'
  run 0 options --schema dpo; says out '"sigmoid_norm"'; ! grep -q '"lmbda"' out || die "a key that DPO does not have"
  python3 -c 'import jsonschema' 2>err || { echo "skipped: python3-jsonschema is not there"; return 0; }
  python3 - out <<'EOF_PY'
import json, sys
from jsonschema import Draft202012Validator as Validator
schema = json.load(open(sys.argv[1]))
Validator.check_schema(schema)
valid = Validator(schema).is_valid
assert valid({"method": "dpo", "loss_type": ["ipo", "sft"], "max_length": None, "runtime.host_memory_limit": "6GiB"})
assert not valid({"beta": 0}) and not valid({"betta": 0.1}) and not valid({"method": "sft"})
EOF_PY
}
case_a_method_has_dashes_or_underscores() {
  local name
  run 0 options online_dpo; mv out list; run 0 options --schema online_dpo; mv out schema
  run 0 options online-dpo; cmp out list; run 0 options --schema online-dpo; cmp out schema
  for name in online-dpo online_dpo; do
    run 0 rows --method "$name" --help; says out "usage: trl rows"
    printf 'method: %s\n' "$name" >m.yaml; run 2 online-dpo --config m.yaml --dataset_name gone.jsonl; says err "--model_name_or_path is required"
  done
}
case_options_searches() {
  run 0 options lora; for key in lora_r lora_alpha lora_target_modules use_peft; do says out "$key = "; done
  ! grep -q "learning_rate = " out || die "a key that has nothing to do with it"
  run 0 options cutoff_len; says out "max_length = "; [ "$(grep -c '^  [a-z_.]* = ' out)" -eq 1 ] || die "one key"
  run 0 options tmpfs; says out "offload_dir = "  # in texts alone
  run 0 options max_length; says out "cutoff_len"
  run 0 options quant; says out "load_in_4bit = "  # though quiet is near
  run 2 options xyzzy; says err "no key has to do with it"
}
case_help_and_version_have_several_names() {
  run 0 help; says out "sft"; mv out want; run 0 --help; cmp out want; run 0 -h; cmp out want
  run 0 --version; mv out want; run 0 -v; cmp out want; run 0 version; cmp out want; run 2 version more
  run 2 help sfft; says err "did you mean sft?"
}
case_misspelt_words_are_answered() {
  run 2 stf; says err "did you mean sft?"; [ "$(wc -l <err)" -eq 1 ] || die "more than a line"
  run 2 xyzzy; says err "trl help"
  run 2 "${sft[@]}" --lr_scheduler_type cosin; says err "did you mean cosine?"
  run 2 "${sft[@]}" --report_to jsnl; says err "did you mean jsonl?"
  run 2 "${sft[@]}" --beta 0.1; says err "--beta: not an option of trl sft; it is one of"
  run 2 generate --model_name_or_path "$model" --learning_rat 1; ! grep -q learning_rate err || die "another command's key"
}
# lines of err that name the flag for it
case_flags_of_other_tools_are_answered_all_at_once() {
  run 2 sft --base_model a --sequence_len 1 --cutoff-len 2 --micro_batch_size 3 --lr 4 --epochs 5 --batch_size=6 --lora_rank 7 --no_such 8
  for pair in base_model:model_name_or_path sequence_len:max_length cutoff_len:max_length micro_batch_size:per_device_train_batch_size \
              lr:learning_rate epochs:num_train_epochs batch_size:per_device_train_batch_size lora_rank:lora_r; do
    says err "--${pair%:*}: not an option of trl sft; the flag for it is --${pair#*:}"
  done
  says err "--no_such: not an option of trl sft"; [ "$(grep -c error err)" -eq 9 ] || die "nine errors"
  run 2 generate --max_tokens 3; says err "the flag for it is --max_new_tokens"
  run 2 generate --generate.top_p 1; says err "the flag for it is --top_p"; run 2 chat --generate.seed 1; says err "the flag for it is --seed"
  run 2 estimate --estimate.prompts 1; says err "the flag for it is --prompts"
  run 2 sft --host_memory_limit 1GB; says err "the flag for it is --runtime.host_memory_limit"
  run 2 "${sft[@]}" -e 3; says err "-e: not an option of trl sft"
  run 2 env --json; says err "--json: not an option of trl env"; run 2 man --outptu x; says err "did you mean --output?"
  run 2 man --no_such; ! grep -q help-all err || die "it has no --help-all"
}
case_unknown_keys_of_a_file_are_told_at_once() {
  printf 'base_model: a\nlr: 1\nmax_steps: 1\nno_such: 2\n' >c.yaml; run 2 sft --config c.yaml
  says err "line 1: 'base_model': unknown key; the key for it is model_name_or_path"; says err "line 2: 'lr'"; says err "line 4: 'no_such'"
}
case_a_key_given_twice_is_a_warning_with_both_lines() {
  printf 'max_steps: 3\nseed: 1\nmax_steps: 2\n' >c.yaml
  local twice="c.yaml:3: max_steps: the key is given twice, first in line 1; this one counts" command
  for command in sft validate rows; do
    run 0 "$command" --config c.yaml --model_name_or_path "$model" --dataset_name "$rows" $([ $command != sft ] || echo --dry_run)
    [ "$(grep -cF "$twice" err)" -eq 1 ] || die "$command: not one warning"
  done
  run 0 "${sft[@]}" --config c.yaml; [ "$(grep -c '"loss"' out)" -eq 2 ] || die "the last counts"
  [ "$(grep -cF "$twice" err)" -eq 1 ] || die "not one warning of a run"
  run 0 tokenize --model_name_or_path "$model" --text it --config c.yaml --log_level error; [ ! -s err ] || die "log_level"
}
case_two_configurations_are_an_error() {
  printf 'max_steps: 3\n' >c.yaml; run 2 sft --config c.yaml --config d.yaml; says err "--config: it is given twice, c.yaml and d.yaml"
  run 2 sft --config c.yaml more; says err "unexpected argument 'more'"
}
case_words_without_a_flag_say_what_to_write() {
  run 2 sft smollm2 rows.jsonl; says err "write --model_name_or_path smollm2 --dataset_name rows.jsonl"
  run 2 sft recipe.yaml; says err "write --config recipe.yaml"
  run 2 generate out "Who are you?"; says err "write --model_name_or_path out --prompt \"Who are you?\""
  run 2 generate --model_name_or_path out Hello; says err "write --prompt Hello"
  run 2 tokenize out hello; says err "write --model_name_or_path out --text hello"
  run 2 convert out out.gguf; says err "write --model_name_or_path out --output out.gguf"
  run 2 dpo out pairs.jsonl tuned; says err "--dataset_name pairs.jsonl --output_dir tuned"
}
case_values_that_are_gone_or_refused() {
  run 2 dpo --loss_type kto_pair; says err "trl kto"
  run 2 dpo --model_name_or_path "$model" --dataset_name "$rows" --loss_type kto; says err "trl kto"
  run 2 sft --optim galore_adam; ! grep -q "galore_adamw" err || die "a value that is refused"
  run 0 completion bash; . ./out
  [ "$(offers sft --optim galore)" = "" ] || die "completed: $(offers sft --optim galore)"
  [ "$(offers sft --optim lion_8)" = lion_8bit ] || die "no longer completed"
  [ "$(offers sft --mixed_precision f)" = "" ] || die "completed: $(offers sft --mixed_precision f)"
}
case_a_list_given_twice_takes_the_last() {
  run 0 "${sft[@]}" --max_steps 1 --save_strategy no --report_to html --report_to csv jsonl
  [ -e model/log_history.csv ] && [ -e model/log_history.jsonl ] && [ ! -e model/report.html ] || die "$(ls model)"
}
case_ignored_keys_share_a_line() {
  run 0 "${sft[@]}" --max_steps 1 --save_strategy no --run_name a --report_to wandb --project b
  [ "$(grep -c 'sent to a tracker' err)" -eq 1 ] || die "more than a line"; [ "$(wc -L <err)" -lt 190 ] || die "a long line"
}
case_quiet_and_log_level() {
  run 0 "${sft[@]}" --max_steps 1 --save_strategy no -q; [ ! -s err ] || die "not quiet"; says out '{"loss"'
  run 0 "${sft[@]}" --max_steps 1 --save_strategy no --log_level debug; says err "debug"; says err "training begins at step 0"
  run 0 "${sft[@]}" --max_steps 1 --save_strategy no --log_level error --run_name a --disable_tqdm; [ ! -s err ] || die "stderr"
  run 2 "${sft[@]}" --log_level critical --learning_rate x; says err "learning_rate"
}
case_the_cache_is_where_the_desktop_says() {
  export XDG_CACHE_HOME=$PWD/cache
  run 0 "${sft[@]}" --max_steps 1 --packing --max_length 64
  [ "$(ls cache/trl | wc -l)" -eq 1 ] && [ ! -e .cache ] || die "no prepared rows in cache"
}
case_what_is_no_dataset_is_named() {
  local train=(sft --model_name_or_path "$model" --output_dir m --bf16 false --dataset_name)
  printf '%%PDF-1.7\n%%\xe2\xe3\n' >a.jsonl; cp a.jsonl a.pdf
  run 1 "${train[@]}" a.jsonl; says err "a.jsonl: is a PDF document, not rows"
  run 1 "${train[@]}" a.pdf; says err ".pdf files are not read"
  printf '\x00\xff\x01\x02' >b.txt; run 1 "${train[@]}" b.txt; says err "b.txt: is a binary file, not rows"
  cp "$trl" c; run 1 "${train[@]}" c; says err "c: is a program, not rows"
}
case_what_is_no_model_is_named() {
  mkdir empty; run 1 tokenize --model_name_or_path empty --text a; says err "empty: is not a model directory"
  run 1 sft --model_name_or_path empty --dataset_name "$rows" --output_dir m; says err "empty: is not a model directory"
  cp -r "$model" bare; rm bare/tokenizer_config.json
  run 0 tokenize --model_name_or_path bare --text a; says err "bare: there is no tokenizer_config.json"
}
case_a_lost_loss_suggests_the_learning_rate() {
  run 1 "${sft[@]}" --learning_rate 1e30 --max_steps 4 --save_strategy no; says err "try a lower learning_rate than 1e+30"
}
case_completion_holds_every_command_and_key() {
  local keys shell command
  run 0 sft --help-all; keys=$(grep -o '^  --[a-zA-Z0-9_.]*' out | tr -d ' ' | sort -u)
  [ "$(wc -l <<<"$keys")" -gt 250 ] || die "few keys"
  for shell in bash zsh fish; do
    run 0 completion $shell; cp out "script.$shell"
    grep -oE -- '(--| -l )[a-zA-Z0-9_.]+' out | sed 's/^ -l /--/' | sort -u >has
    comm -23 <(echo "$keys") has >lacks; [ ! -s lacks ] || die "$shell lacks $(head -3 lacks)"
    for command in "${commands[@]}"; do says "script.$shell" "$command"; done
    ! command -v $shell >/dev/null || $shell -n "script.$shell" || die "$shell cannot read it"
  done
  run 2 completion tcsh; says err "bash | zsh | fish"
}
# offers WORDS...: what bash completes the last word to
offers() { COMP_WORDS=(trl "$@"); COMP_CWORD=$#; COMPREPLY=(); _trl; printf '%s\n' "${COMPREPLY[@]}"; }
case_bash_completes() {
  run 0 completion bash; . ./out
  [ "$(offers sf)" = sft ] || die "commands"
  [ "$(offers sft --learning_r)" = --learning_rate ] || die "keys"
  [ "$(offers sft --lr_scheduler_type cosine_with_r)" = cosine_with_restarts ] || die "values"
  [ "$(offers sft --lr-scheduler-type cosine_with_r)" = cosine_with_restarts ] || die "values of a key with dashes"
  [ "$(offers generate --max_new)" = --max_new_tokens ] || die "keys of generate"
  [ "$(offers options learning_r)" = learning_rate ] || die "options"
  : >rows.jsonl; [ "$(offers sft --dataset_name row)" = rows.jsonl ] || die "files"
}
case_manual_pages() {
  local page
  mkdir pages; run 0 man --output pages; [ -s pages/trl.1 ] || die "trl.1"
  for command in "${commands[@]}"; do [ -s "pages/trl-$command.1" ] || die "trl-$command.1"; done
  run 0 man sft; cmp out pages/trl-sft.1; says out '.TH "TRL\-SFT" 1'; says out '\fB\-\-learning_rate\fR'; says out "gradient_accumulation_steps"
  for page in pages/*.1; do
    if command -v mandoc >/dev/null; then mandoc -Tlint -Werror "$page" || die "$page"; fi
    if command -v groff >/dev/null; then [ -z "$(groff -man -Tutf8 -ww -z "$page" 2>&1)" ] || die "$page: $(groff -man -Tutf8 -ww -z "$page" 2>&1 | head -3)"; fi
  done
}
case_generate_takes_several_prompts() {
  local words=(generate --model_name_or_path "$model" --max_new_tokens 4)
  run 0 "${words[@]}" --prompt "It opens"; mv out one
  "$trl" "${words[@]}" <<<"It opens" >out 2>err || die "stdin"; cmp out one
  run 0 "${words[@]}" --prompt "It opens" --prompt Once "Once upon" --json; [ "$(wc -l <out)" -eq 3 ] || die "lines"
  says out '{"prompt":"Once upon","completion":"'; mv out three
  printf '{"prompt": "It opens"}\nOnce\n\nOnce upon\n' >p.jsonl
  run 0 "${words[@]}" --prompts p.jsonl --json; cmp out three
  "$trl" "${words[@]}" --prompts - --json <p.jsonl >out 2>err || die "stdin"; cmp out three
  run 0 "${words[@]}" --prompt "It opens" Once; says out "--- 1 of 2"; says out "--- 2 of 2"
  run 2 "${words[@]}" --prompt a ""; says err "prompt 2 of 2 is empty"
  printf '{"prompt": 7}\n' >bad.jsonl; run 1 "${words[@]}" --prompts bad.jsonl; says err "bad.jsonl:1: "
  run 1 "${words[@]}" --prompts gone.jsonl; says err "gone.jsonl: cannot be opened: No such file"
  : >none; run 1 "${words[@]}" --prompts none; says err "none: holds no prompts"
  run 2 "${words[@]}" --prompts none --prompt a; says err "not both"
}
case_generate_completes_the_others_if_a_prompt_fails() {
  # The cache has one block, of 64 tokens; a digit is a token.
  local words=(generate --model_name_or_path "$model" --max_new_tokens 8 --ignore_eos --kv_cache_memory 32768) long grows
  long=$(printf '7%.0s' {1..100}); grows=$(printf '7%.0s' {1..60})
  run 0 "${words[@]}" --prompt "It opens" Once --json; mv out want
  printf 'It opens\n%s\n%s\nOnce\n' "$long" "$grows" >p.txt
  run 1 "${words[@]}" --prompts p.txt --json; [ "$(wc -l <out)" -eq 4 ] || die "a line for each"; says err "2 of 4 prompts"
  sed -n '1p;4p' out | cmp - want || die "the others"
  sed -n 2p out >second; says second '"completion":"","error":"p.txt:2: the prompt has 100 tokens'
  sed -n 3p out >third; says third '"error":"p.txt:3: '; says third "no more keys and values fit into kv_cache_memory"
  run 1 "${words[@]}" --prompts p.txt --json --token_ids; sed -n 2p out >second; says second '"finish_reason":"abort"'
  run 1 "${words[@]}" --prompts p.txt; says out "--- 1 of 4"; says out "--- 3 of 4"; says out "--- 4 of 4"; ! grep -q -e "--- 2 of 4" out || die "a text"
  says err "p.txt:2: the prompt has 100 tokens"; says err "p.txt:3: "
  run 1 "${words[@]}" --prompt "It opens" "$long" --temperature 1 --num_return_sequences 2 --json; [ "$(wc -l <out)" -eq 3 ] || die "two and an error"
  says out '"error":"prompt 2: the prompt has 100 tokens'
  printf 'It \xff\nOnce\n' >p.txt; run 1 "${words[@]}" --prompts p.txt; says err "p.txt:1: text is not UTF-8"; says out "--- 2 of 2"
  printf '{"prompt":"Once"}\n{"prompt":""}\n' >p.txt; run 1 "${words[@]}" --prompts p.txt; says err "p.txt:2: the prompt is empty"; says out "--- 1 of 2"
  run 2 "${words[@]}" --prompts p.txt --num_return_sequences 2; says err "generate.temperature above 0"
}
case_generate_gives_several_completions() {
  local words=(generate --model_name_or_path "$model" --max_new_tokens 6 --temperature 1.5 --num_return_sequences 3)
  run 0 "${words[@]}" --prompt "It opens" Once --json; [ "$(grep -c '"prompt":"It opens"' out)" -eq 3 ] || die "three of each"
  [ "$(wc -l <out)" -eq 6 ] || die "lines"; [ "$(sort -u out | wc -l)" -eq 6 ] || die "the same"
  run 0 "${words[@]}" --prompt "It opens"; says out "--- 1 of 3"; says out "--- 3 of 3"
  run 2 "${words[@]}" --prompt "It opens" --temperature 0; says err "needs generate.temperature above 0"
  run 0 "${words[@]}" --prompt "It opens" Once --json; mv out want
  run 0 generate --model_name_or_path "$model" --max_new_tokens 6 --generation_kwargs '{n: 3, temperature: 1.5, use_cache: true, pad_token_id: 0}' --prompt "It opens" Once --json; cmp out want
  run 2 chat --model_name_or_path "$model" --generation_kwargs '{n: 2}'; says err "chat gives one answer"
  run 2 chat --model_name_or_path "$model" --num_return_sequences 2; says err "chat gives one answer"
}
case_generate_writes_ids_and_log_probabilities() {
  local words=(generate --model_name_or_path "$model" --max_new_tokens 2 --prompt Hello)
  run 0 "${words[@]}" --json --token_ids --logprobs 2; says out '"token_ids":['; says out '"finish_reason":"length"'
  says out '"logprobs":['; says out '"sampling_logprobs":['; says out '"top_logprobs":[[['
  run 0 "${words[@]}" --json; ! grep -q logprobs out || die "nobody asked"
  run 2 "${words[@]}" --logprobs 2; says err "give --json"
  run 2 "${words[@]}" --token_ids; says err "give --json"
  run 2 "${words[@]}" --keep true; says err "trl_generator_extend"
  run 2 "${words[@]}" --generation_kwargs '{logprobs: 2}'; says err "give --json"
  run 2 chat --model_name_or_path "$model" --logprobs 2; says err "chat shows none"
  run 2 chat --model_name_or_path "$model" --generation_kwargs '{logprobs: 2}'; says err "--logprobs: chat shows none"
  run 2 chat --model_name_or_path "$model" --prompt_logprobs 2; says err "--prompt_logprobs: chat shows none"
  run 2 chat --model_name_or_path "$model" --usage true; says err "--usage: chat shows no counts"
  run 2 chat --model_name_or_path "$model" --take new; says err "--take: chat shows"
  run 0 "${words[@]}" --generation_dtype int4 --kv_cache_dtype int8 --kv_cache_memory 10% --prefix_cache false
  run 2 "${words[@]}" --kv_cache_memory 0%; says err "more than 0%"
  run 2 "${words[@]}" --kv_cache_memory half; says err "kv_cache_memory: 'half' is not accepted: give auto, a share as in 25%"
  run 2 "${words[@]}" --generation_dtype int5; says err "bfloat16, int8, int4"
}
case_generate_takes_plain_kernels_and_a_budget() {
  local words=(generate --model_name_or_path "$model" --max_new_tokens 6 --json --token_ids --prompt Hello)
  run 0 "${words[@]}"; mv out want
  run 0 "${words[@]}" --fused_kernels off; cmp out want
  run 0 "${words[@]}" --memory_budget 64GiB; cmp out want
  run 2 "${words[@]}" --memory_budget 1MiB; says err "memory_budget: 1MiB is too little"
  printf 'hello\n/exit\n' | "$trl" chat --model_name_or_path "$model" --max_new_tokens 4 --fused_kernels off >out 2>err || die "chat"
}
# The first prompt is not over when the step fails, of the third the second token is an end.
case_generate_writes_what_is_over_if_a_step_fails() {
  [ -n "${TRL_TEST_FAILING_STEP:-}" ] || exit 77
  local words=(generate --model_name_or_path "$model" --json --ignore_eos) long id
  long=$(printf '7%.0s' {1..300})
  run 0 "${words[@]}" --max_new_tokens 2 --prompt Once --token_ids
  id=$(sed 's/.*"token_ids":\[[0-9]*,\([0-9]*\)\].*/\1/' out)
  words+=(--max_new_tokens 40 --stop_token_ids "[$id]")
  run 0 "${words[@]}" --prompt Once; mv out want
  LD_PRELOAD=$TRL_TEST_FAILING_STEP run 1 "${words[@]}" --prompt "It opens" "$long" Once
  [ "$(wc -l <out)" -eq 3 ] || die "a line for each"; says err "no-more-memory"
  sed -n 1p out >first; says first '"error":"prompt 1: '; says first "no-more-memory"
  sed -n 2p out >second; says second '"error":"prompt 2: the prompt has 300 tokens'
  sed -n 3p out | cmp - want || die "the one that is over"
}
# To take one copies it: one take a step would be quadratic.
case_generate_takes_a_completion_once_it_is_over() {
  [ -n "${TRL_TEST_COUNTED_TAKES:-}" ] || exit 77
  local words=(generate --model_name_or_path "$model" --max_new_tokens 40 --ignore_eos --prompt "It opens" Once)
  run 0 "${words[@]}"; mv out text; run 0 "${words[@]}" --json; mv out lines
  LD_PRELOAD=$TRL_TEST_COUNTED_TAKES run 0 "${words[@]}"; cmp out text; [ "$(wc -l <takes)" -le 8 ] || die "text: $(wc -l <takes) takes"
  rm takes; LD_PRELOAD=$TRL_TEST_COUNTED_TAKES run 0 "${words[@]}" --json; cmp out lines; [ "$(wc -l <takes)" -le 8 ] || die "$(wc -l <takes) takes"
}
case_generate_takes_a_system_message() {
  local words=(generate --model_name_or_path "$model" --max_new_tokens 6 --prompt Hello)
  run 0 "${words[@]}" --chat; mv out plain; run 0 "${words[@]}" --chat --system "Be brief."; mv out brief
  run 0 "${words[@]}" --system "Be brief."; cmp out brief; ! cmp -s plain brief || die "it has no effect"
  run 2 "${words[@]}" --system "Be brief." --chat false; says err "generate.chat"
}
case_generate_and_chat_open_as_training_does() {
  local words=(--model_name_or_path "$model" --max_new_tokens 24)
  run 0 generate "${words[@]}" --prompt "It opens"; mv out plain
  for form in --load_in_4bit --load_in_8bit "--dtype bfloat16"; do
    run 0 generate "${words[@]}" --prompt "It opens" $form; [ "$form" != --load_in_4bit ] || ! cmp -s out plain || die "$form: as without"
  done
  run 2 generate "${words[@]}" --prompt a --load_in_4bit --load_in_8bit; says err "give one of them"
  printf 'hello\n/save a.jsonl\n/exit\n' | "$trl" chat "${words[@]}" >out 2>err || die "chat"
  printf 'hello\n/save b.jsonl\n/exit\n' | "$trl" chat "${words[@]}" --load_in_4bit >out 2>err || die "chat"
  ! cmp -s a.jsonl b.jsonl || die "chat --load_in_4bit: as without"
}
case_chat_takes_an_adapter() {
  run 0 "${sft[@]}" --max_steps 2 --use_peft --learning_rate 0.5 --output_dir adapter
  printf 'hello\n/save a.jsonl\n/exit\n' >typed
  "$trl" chat --model_name_or_path adapter --max_new_tokens 8 <typed >out 2>err || die "its directory"
  "$trl" chat --model_name_or_path "$model" --adapter_name_or_path adapter --max_new_tokens 8 < <(sed s/a.jsonl/b.jsonl/ typed) >out 2>err || die "beside its model"
  cmp a.jsonl b.jsonl
}
case_keys_of_other_calls_are_refused() {
  run 2 "${sft[@]}" --save.kind checkpoint; says err "not an option of trl sft"
  run 2 "${sft[@]}" --estimate.prompts 5; says err "not an option of trl sft"
  run 2 "${sft[@]}" --generate.temperature -1; says err "generate.temperature"
}
case_reward_trains_and_saves_a_classifier() {
  run 0 reward --model_name_or_path "$model" --dataset_name "$data/data/datasets/train_pref.jsonl" --output_dir model \
    --bf16 false --max_steps 2 --logging_steps 1
  says out '"accuracy"'; says err "a new head is drawn from seed 42"; says model/config.json "Qwen2ForSequenceClassification"
  run 0 options reward; says out "learning_rate = 1e-04"; says out "center_rewards_coefficient"; says out "lora_task_type = SEQ_CLS"
}
case_dpo_takes_losses_as_words() {
  local dpo=(dpo --model_name_or_path "$model" --dataset_name "$data/data/datasets/train_pref.jsonl" --output_dir model
             --bf16 false --max_steps 1)
  run 0 "${dpo[@]}" --loss_type sigmoid sft --loss_weights 1.0 0.1; says out '"rewards/margins"'
  run 2 "${dpo[@]}" --loss_type sigmoid sft --loss_weights 1.0; says err "loss_weights: [1.0] is not accepted with loss_type [sigmoid, sft]: give one weight for each loss"
  run 2 "${dpo[@]}" --rpo_alpha 0.1; says err "give loss_type: [sigmoid, sft] with loss_weights: [1.0, the value of rpo_alpha]"
}
case_a_checkpoint_is_no_output_dir() {
  run 0 "${sft[@]}" --max_steps 1 --save_steps 1
  run 1 "${sft[@]}" --max_steps 1 --save_strategy no --output_dir model/checkpoint-1; says err "is a checkpoint"
  run 0 "${sft[@]}" --max_steps 1 --save_steps 1 --resume_from_checkpoint true
}
case_version_takes_no_more() { run 2 --version extra; }
case_extra_words_are_refused() {
  run 2 "${sft[@]}" --dataset_name a b; says err "'b'"
  run 2 "${sft[@]}" --learning_rate 1e-5 7e-3; says err "'7e-3'"
  run 2 "${sft[@]}" --learning_rate; says err "--learning_rate needs a value"
  run 2 "${sft[@]}" --max_seq_length; says err "--max_seq_length needs a value"
  run 2 dpo --max_target_length=; says err "--max_target_length needs a value"
}
case_the_last_of_a_flag_counts() {
  printf 'max_steps: 3\n' >c.yaml
  run 0 "${sft[@]}" --config c.yaml --bf16 --bf16 false --max_steps 2 --max_steps 1
  [ "$(grep -c '"loss"' out)" -eq 1 ] || die "records"
}
case_a_word_may_begin_with_a_bracket() {
  for prompt in "[INST] hi" " [INST] hi"; do
    run 0 generate --model_name_or_path "$model" --max_new_tokens 6 "--prompt=$prompt"; mv out "out.$prompt"
    run 0 generate --model_name_or_path "$model" --max_new_tokens 6 --prompt "$prompt"; cmp out "out.$prompt" || die "$prompt"
  done
  ! cmp -s "out.[INST] hi" "out. [INST] hi" || die "the space before a bracket was lost"
  run 1 sft --config "[a].yaml"; says err "error: [a].yaml"
}
case_line_breaks_of_a_list_stay() {
  local words=(generate --model_name_or_path "$model" --prompt hi --temperature 1 --seed 3 --max_new_tokens 20)
  run 0 "${words[@]}"; mv out whole
  grep -q ' ' whole || die "no space to stop at"
  run 0 "${words[@]}" --stop $'\n' "%%%"; cmp out whole || die "it stopped"
}
case_a_run_that_lost_its_numbers_goes_on() {
  local lost=("${sft[@]}" --learning_rate 1e30 --on_nonfinite continue --logging_nan_inf_filter false --max_steps 4 --save_steps 2)
  run 0 "${lost[@]}"; grep -q NaN model/trainer_state.json || die "no NaN"
  run 0 "${lost[@]}" --resume_from_checkpoint model/checkpoint-2
}
case_a_malformed_file_is_usage() { printf 'a: [1\n' >c.yaml; run 2 sft --config c.yaml; says err "c.yaml"; }
case_a_reader_that_leaves_stops_nothing() {
  "$trl" "${sft[@]}" --max_steps 20 2>err | head -n 1 >out
  [ "${PIPESTATUS[0]}" -eq 0 ] || die "exit code"
  [ -s model/model.safetensors ] || die "nothing was saved"
}
case_a_full_stdout_is_a_failure() {
  local code=0
  "$trl" "${sft[@]}" --max_steps 2 >/dev/full 2>err || code=$?
  [ "$code" -eq 1 ] || die "exit code $code"
  says err "stdout: No space left"
  [ -s model/model.safetensors ] || die "nothing was saved"
  code=0; "$trl" --version >/dev/full 2>err || code=$?
  [ "$code" -eq 1 ] || die "exit code $code"
}
case_bad_environment_names() {
  printf 'env: {"A=B": 1}\n' >c.yaml; run 2 "${sft[@]}" --config c.yaml; says err "A=B"
}
case_nothing_to_learn_from() { run 1 "${sft[@]}" --max_length 1; says err "nothing is left to train on"; }
case_evaluation_needs_rows() { run 2 "${sft[@]}" --eval_strategy steps --eval_steps 1; says err "eval_dataset_name"; }
case_training_in_place_is_warned_of() {
  cp -r "$model" own
  run 0 sft --model_name_or_path own --dataset_name "$rows" --output_dir own --max_steps 1 --bf16 false
  says err "the model's own directory"
}
case_generate_warns_beyond_the_positions() {
  run 0 generate --model_name_or_path "$model" --prompt "It opens" --max_new_tokens 255
  says err "beyond the 256 positions of the model"
}
case_a_prompt_beyond_the_positions_is_refused() {
  local long; long=$(printf '7%.0s' {1..300})  # a digit is a token
  run 1 generate --model_name_or_path "$model" --max_new_tokens 4 --prompt "It opens" "$long" --json; [ "$(wc -l <out)" -eq 2 ] || die "a line for each"
  says out '"completion":"","error":"prompt 2: the prompt has 300 tokens, and the model has 256 positions'
  printf '%s\nHello\n' "$long" | "$trl" chat --model_name_or_path "$model" --max_new_tokens 4 >out 2>err || die "chat ended"
  says err "and the model has 256 positions"; [ "$(grep -c error err)" -eq 1 ] || die "the next answer failed, too"
}
case_a_stop_text_is_a_whole_word() {
  local words=(generate --model_name_or_path "$model" --prompt hi --temperature 1 --seed 3 --max_new_tokens 20)
  run 0 "${words[@]}"; mv out whole
  local text; text=$(cat whole)
  run 0 "${words[@]}" --stop " "; [ "$(cat out)" = "$(printf %s "${text%% *}")" ] || die "the space was lost"
  for key in stop bad_words; do
    run 2 "${words[@]}" "--$key" ""; says err "generate.$key"
    run 2 "${words[@]}" "--$key" a ""; says err "generate.$key"
  done
  run 0 "${words[@]}" --stop null; cmp out whole; run 0 "${words[@]}" --stop '[]'; cmp out whole
  local letter=${text//[^a-z]/}; letter=${letter:0:1}  # a bracket alone makes no list
  run 0 "${words[@]}" --stop "[$letter]"; cmp out whole || die "it stopped at $letter"
  run 0 "${words[@]}" --stop "[\"$letter\"]"; [ "$(cat out)" = "$(printf %s "${text%%"$letter"*}")" ] || die "no list"
}
case_unknown_command_is_usage() { run 2 sfft; says err "sfft"; says err "sft"; }
case_unknown_option_names_the_nearest() {
  run 2 "${sft[@]}" --learnig_rate 1; says err "learning_rate"; [ ! -e model ] || die "model was written"
}
case_out_of_range_option_names_what_is_accepted() {
  run 2 "${sft[@]}" --per_device_train_batch_size 0; says err "per_device_train_batch_size"; says err "0"
}
case_unknown_key_in_a_file() {
  printf 'learning_rat: 1.0e-4\n' >c.yaml; run 2 sft --config c.yaml; says err "learning_rate"; says err "c.yaml"
}
case_missing_config_file() { run 1 sft --config gone.yaml; says err "gone.yaml"; }
case_missing_dataset() { run 1 sft --model_name_or_path "$model" --dataset_name gone.jsonl --output_dir m; says err "gone.jsonl"; }
case_names_of_the_hub_without_it() {
  run 1 sft --model_name_or_path "$model" --dataset_name trl-lib/Capybara --output_dir m; says err "dataset_name: there is no file or directory trl-lib/Capybara; on the hub: trl-lib/Capybara: it is not in the Hugging Face cache"
  run 1 sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name "$rows" --output_dir m; says err "the hub is not asked (TRL_HUB=off)"
}
case_output_that_cannot_be_written_fails_first() {
  : >file; run 1 "${sft[@]}" --output_dir file/model; says err "file/model"; [ ! -s out ] || die "it trained"
}
case_missing_model() { run 1 sft --model_name_or_path gone --dataset_name "$rows" --output_dir m; says err "gone"; }
case_malformed_row_names_file_and_line() {
  printf '{"text": "a"}\n{"text": \n' >bad.jsonl
  run 1 sft --model_name_or_path "$model" --dataset_name bad.jsonl --output_dir m; says err "bad.jsonl:2"
}
case_help_lists_options() { run 0 sft --help; says out "--learning_rate"; says out "--dataset_name"; }

case_tokenize_prints_ids_pieces_and_texts() {
  run 0 tokenize --model_name_or_path "$data/tokenizers/bpe_digits" --text $'It is\n12 \xC3\xA9'
  [ "$(cut -f3 out | tr -d '"' | tr -d '\n')" = 'It is\n12 é' ] || die "texts"
  [ "$(cut -f2 out | tr -d '"' | tr -d '\n')" = 'ItĠisĊ12ĠÃ©' ] || die "pieces"
  cut -f1 out | grep -vqE '^[0-9]+$' && die "ids"
  run 0 tokenize --model_name_or_path "$data/tokenizers/word_piece" --text "it"; says out '"[CLS]"'
  run 0 tokenize --model_name_or_path "$data/tokenizers/word_piece" --text "it" --plain; ! grep -q CLS out || die "--plain"
  run 0 tokenize --model_name_or_path "$model" --text "a<|im_end|>b"; [ "$(wc -l <out)" = 3 ] || die "a special token"
  run 0 tokenize --model_name_or_path "$model" --text "a<|im_end|>b" --split_special_tokens; [ "$(wc -l <out)" = 11 ] || die "split"
  run 2 tokenize --model_name_or_path "$model"; says err "--text is required"
  run 2 tokenize --text a; says err "--model_name_or_path is required"
}
case_tokenize_reads_stdin_and_gives_json() {
  local words=(tokenize --model_name_or_path "$model")
  run 0 "${words[@]}" --text $'It is\nhere'; mv out want
  printf 'It is\nhere\n' | "$trl" "${words[@]}" >out 2>err || die "stdin"; cmp out want
  printf 'It is\nhere\n' | "$trl" "${words[@]}" --text - >out 2>err || die "-"; cmp out want
  run 0 "${words[@]}" --text $'It is\nhere' --json; mv out json
  says json "{\"input_ids\":[$(cut -f1 want | paste -sd,)],\"pieces\":["; says json '"texts":["It"'
  run 0 "${words[@]}" --decode $(cut -f1 want); [ "$(cat out)" = $'It is\nhere' ] || die "decoded: $(cat out)"
  "$trl" "${words[@]}" --decode <json >out 2>err || die "decode of --json"; [ "$(cat out)" = $'It is\nhere' ] || die "decoded: $(cat out)"
  run 0 "${words[@]}" --decode --text "[$(cut -f1 want | paste -sd,)]" --json; says out '{"text":"It is\nhere"}'
  run 2 "${words[@]}" --decode 1 two; says err "--decode: 'two' is not the id of a token"
  run 2 "${words[@]}" --decode 1 --text 2; says err "not both"
  run 1 "${words[@]}" --decode 99999; says err "99999 is outside the vocabulary"
  run 0 tokenize --model_name_or_path "$data/tokenizers/word_piece" --text it --json; says out '[CLS]'
  run 0 tokenize --model_name_or_path "$data/tokenizers/word_piece" --decode --plain --text "$(cat out)"; [ "$(cat out)" = it ] || die "--plain"
}
# What a terminal gets: script makes one.
case_tokens_are_coloured_on_a_terminal() {
  script -qec true /dev/null >/dev/null 2>&1 || { echo 'no pseudo-terminal can be made here'; exit 77; }
  printf '{"prompt": "Who?", "completion": " Ines."}\n' >rows.jsonl
  local green=$'\033[32mtrained\t' dim=$'\033[2m-\t' cyan=$'\033[36m' end=$'\033[0m\t'
  local rows="$trl template --model_name_or_path $model --dataset_name rows.jsonl"
  script -qec "$rows" /dev/null >out </dev/null
  says out "$green"; says out "$dim"; says out "$end"
  script -qec "$trl tokenize --model_name_or_path $model --text it" /dev/null >out </dev/null
  says out "$cyan"; says out "$end"
  script -qec "NO_COLOR=1 $rows" /dev/null >out </dev/null
  says out "trained"; ! grep -q $'\033' out || die "colours against NO_COLOR"
  run 0 template --model_name_or_path "$model" --dataset_name rows.jsonl; ! grep -q $'\033' out || die "colours in a file"
}
case_template_shows_what_is_trained_on() {
  printf '{"prompt": "Who?", "completion": " Ines."}\n{"prompt": "Where?", "completion": " Here."}\n' >rows.jsonl
  run 0 template --model_name_or_path "$model" --dataset_name rows.jsonl --row 1
  grep -q 'trained' out || die "nothing is trained on"
  [ "$(awk -F'\t' '$2 == "-"' out | cut -f4 | tr -d '"\n')" = "Where?" ] || die "the prompt"
  case "$(awk -F'\t' '$2 == "trained"' out | cut -f4 | tr -d '"\n')" in " Here."*) ;; *) die "the completion" ;; esac
  run 0 template --model_name_or_path "$model" --dataset_name rows.jsonl --completion_only_loss false
  ! grep -qP '\t-\t' out || die "a token is not trained on"
  run 0 template --model_name_or_path "$model" --dataset_name rows.jsonl --json; says out '"labels":[-100,'
  run 1 template --model_name_or_path "$model" --dataset_name rows.jsonl --row 2; says err "row: 2: "; says err "has 2 rows"
  run 2 template --model_name_or_path "$model" --dataset_name rows.jsonl --row x; says err "'x' is not the number of a row"
}

# The recorded run sft_plain, through the command: eight records with TRL's names and numbers on stdout.
case_trains_like_trl() {
  run 0 "${sft[@]}" --max_steps 8
  [ "$(grep -c '"loss"' out)" -eq 8 ] || die "records"
  says out '{"loss": 6.656'
  says out '"num_tokens": 851'
  says out '"train_loss": 6.204'
  for file in model.safetensors config.json generation_config.json tokenizer.json tokenizer_config.json \
              chat_template.jinja trainer_state.json; do
    [ -s "model/$file" ] || die "model/$file is missing"
  done
  says err "step 8/8"
}
# The recorded run kto_precompute, twice: what the reference gave is kept, and the options of KTO are its own.
case_trains_kto_like_trl() {
  local kto=(kto --model_name_or_path "$model" --dataset_name "$data/data/datasets/train_unpaired.jsonl" --bf16 false
             --per_device_train_batch_size 4 --learning_rate 2e-3 --logging_steps 1 --max_steps 8
             --precompute_ref_log_probs --ref_logprobs_cache_dir kept)
  for output in first second; do
    run 0 "${kto[@]}" --output_dir "$output"
    [ "$(grep -c '"loss"' out)" -eq 8 ] || die "records"
    says out '{"loss": 0.4927'
    says out '"num_tokens": 353'
    says out '"kl": 4.038'
    [ -s "$output/model.safetensors" ] || die "no model"
    [ "$(ls kept | wc -l)" -eq 1 ] || die "files in kept"
  done
  says err "are read from"
  run 2 "${kto[@]}" --output_dir third --train_sampling_strategy random; says err "train_sampling_strategy: random is refused"
  run 2 "${kto[@]}" --output_dir third --loss_type nll; says err "give one of kto, apo_zero_unpaired"
  run 0 options kto; says out "desirable_weight"; says out "apo_zero_unpaired"; says out "kto: the loss of the KTO paper"
  says out "train_sampling_strategy = sequential  (random|sequential)"
  run 0 kto --help; says out "--undesirable_weight"; run 0 kto --help-all; says out "--loss_type CHOICE  [kto]"
}
prompts() { printf '{"prompt":"Tell me of the sea:"}\n{"prompt":"Name a planet:"}\n' >p.jsonl; }
grpo=(grpo --model_name_or_path "$model" --dataset_name p.jsonl --output_dir model --bf16 false --per_device_train_batch_size 4
      --num_generations 2 --max_completion_length 6 --logging_steps 1 --max_steps 2 --save_strategy no)
case_grpo_prints_completions() {
  prompts; run 0 "${grpo[@]}" --reward_funcs think_format_reward --log_completions --num_completions_to_print 3
  [ "$(grep -c '"loss"' out)" -eq 2 ] || die "records"
  says err "completions of step 1 (train)"; says err "Prompt "; says err "think_format"; says err "| Advantage"
  [ "$(grep -c '^-*-+-' err)" -eq 6 ] || die "three completions of two steps"
  [ "$(grep -e '-+-' err | wc -L)" -eq 80 ] || die "columns"
  [ "$(ls model/completions | wc -l)" -eq 2 ] || die "a file of each record"
  run 0 "${grpo[@]}" --reward_funcs think_format_reward --log_completions --quiet; ! grep -q Prompt err || die "quiet"
  run 2 "${grpo[@]}" --log_completions_hub_repo me/c; says err "log_completions_hub_repo"; says err "uses no network"
  run 0 "${grpo[@]}" --reward_funcs think_format_reward --num_completions_to_print 3; says err "has an effect only with log_completions: true"
}
case_distillation_prints_completions_without_advantages() {
  prompts
  run 0 distillation --model_name_or_path "$model" --teacher_model_name_or_path "$data/models/qwen3" --dataset_name p.jsonl \
    --output_dir model --bf16 false --per_device_train_batch_size 2 --max_completion_length 6 --max_steps 1 --logging_steps 1 \
    --save_strategy no --log_completions
  says err "completions of step 1 (train)"; says err "| Completion"; ! grep -q Advantage err || die "advantages"
}
case_grpo_prints_messages_and_calls() {
  for question in So? Then?; do
    echo '{"prompt":[{"role":"user","content":"1+1?"},{"role":"assistant","content":null,"tool_calls":[{"type":"function",' \
      '"function":{"name":"add","arguments":{"a":1}}}]},{"role":"tool","name":"add","content":"2"},{"role":"user","content":"'"$question"'"}]}'
  done >p.jsonl
  run 0 "${grpo[@]}" --reward_funcs think_format_reward --log_completions
  says err "ASSISTANT"; says err 'add({"a":1})'; says err "So?"; ! grep -q '^null' err || die "a content that is not there"
}
# scores LINES: a program that answers each request with one of the lines, in turn, and with the last one from then on
scores() {
  { echo '#!/bin/sh'; echo 'n=0; while read -r line; do printf "%s\n" "$line" >>asked; n=$((n + 1))'
    echo "sed -n \"\$n{p;q};\\\$p\" answers; done; echo ended >>asked"; } >score.sh
  chmod +x score.sh; printf '%s\n' "$@" >answers; rm -f asked
}
case_grpo_has_a_dry_run() {
  prompts; run 0 "${grpo[@]}" --reward_funcs "command:./score.sh" --dry_run; says out 'reward_funcs: ["command:./score.sh"]'; says out "memory  "; [ ! -e model ] || die "a folder"
}
case_grpo_takes_rewards_of_a_program() {
  prompts; scores '[1, 2, null, 4]' '{"rewards": [4, 3, 2, 1], "metrics": {"mine": 7}}'
  run 0 "${grpo[@]}" --reward_funcs "command:./score.sh an 'argument'" think_format_reward --reward_weights 2 0
  says out '"rewards/score.sh/mean": 2.33333333'; says out '"reward": 3.5'; says out '"mine": 7'; says out '"reward": 5,'
  [ "$(wc -l <asked)" -eq 3 ] && says asked ended || die "one program for the run"
  says asked '{"mode":"train","step":0,"prompts":["'; says asked '"completion_ids":[['; says asked '"columns":{}'
  printf 'reward_funcs:\n- think_format_reward\n- "points=command:./score.sh"\n' >r.yaml
  run 0 "${grpo[@]}" --config r.yaml --reward_weights 0 1; says out '"rewards/points/mean": 2.33333333'; says out '"reward": 1.75'
  run 2 "${grpo[@]}" --reward_funcs command:; says err "the command is missing"
  for dry in "" --dry_run; do
    run 2 "${grpo[@]}" --reward_funcs "command:./score.sh" --reward_weights 1 2 $dry
    says err "reward_weights: their number is 2, and that of the rewards 1"
    run 2 "${grpo[@]}" $dry; says err "reward_funcs: there is no reward: give"; ! grep -q 'rows$' err || die "rows were read first"
  done
  for dry in "" --dry_run; do run 2 "${grpo[@]}" --reward_funcs my.module.reward $dry; says err "command:LINE"; done
  run 2 "${grpo[@]}" --reward_funcs "command:./score.sh" "command:./score.sh 2"; says err "two rewards are called score.sh"
}
case_a_program_is_asked_by_group_while_others_wait() {
  prompts; cat >score.sh <<'S'
#!/bin/sh
while read -r line; do sleep 0.1; echo "$line" | grep -o '"completion_ids":\[\[.*\]\]' | wc -l >>asked; echo '[1, 0]'; done
S
  chmod +x score.sh
  run 0 "${grpo[@]}" --reward_funcs "command:./score.sh" --reward_by_group; [ "$(wc -l <asked)" -eq 4 ] || die "not two groups of two steps"
  says out '"rewards/score.sh/mean": 0.5'
  run 0 "${grpo[@]}" --overwrite_output_dir --reward_by_group --reward_funcs "slow=command:sleep 60" think_format_reward --reward_timeout 0.2 --on_reward_error none
  says err "the reward slow did not answer within reward_timeout"
}
case_a_program_that_fails_is_named() {
  prompts; local line="command:./score.sh"
  scores '[1, 2]'; run 1 "${grpo[@]}" --reward_funcs "$line"; says err "command './score.sh', line 1 of its output: it has 2 rewards for 4 completions"
  scores '[1, 2, 3, "x"]'; run 1 "${grpo[@]}" --reward_funcs "$line"; says err 'reward 3: "x" is not a number'
  scores 'hm'; run 1 "${grpo[@]}" --reward_funcs "$line"; says err "nested deeper than 128: hm"
  scores '{"error": "no key"}'; run 1 "${grpo[@]}" --reward_funcs "$line"; says err 'it failed: "no key"'
  run 1 "${grpo[@]}" --reward_funcs "command:echo to stderr >&2; exit 3"; says err "to stderr"; says err "it ended with exit code 3 before it answered"
  run 1 "${grpo[@]}" --reward_funcs "slow=command:sleep 60" --reward_timeout 0.2; says err "the reward slow did not answer within reward_timeout"
  [ ! -e model/checkpoint-1 ] || die "nothing was done"
  scores '[1, 2, 3, 4]' '[1, 2, 3, {"error": "bad"}]'
  run 1 "${grpo[@]}" --reward_funcs "$line"; says err 'line 2 of its output: reward 3: "bad"'; says err "--resume_from_checkpoint model/checkpoint-1"
  says err "on_reward_error: none counts it as none instead; the run can resume from step 1 of 2, once that is saved; by itself it had saved no checkpoint"
  says err "failed after step 1, which is saved now. To continue: the same command with --resume_from_checkpoint model/checkpoint-1"; ! grep -q interrupted err || die "it failed"
  for from in model/checkpoint-1 auto; do  # the first step after a resume
    run 1 "${grpo[@]}" --reward_funcs "score.sh=command:exit 3" --resume_from_checkpoint "$from"
    says err "no step was made after model/checkpoint-1"; says err "with --resume_from_checkpoint model/checkpoint-1"
  done
  run 0 "${grpo[@]}" --overwrite_output_dir --reward_funcs "$line" --on_reward_error none; says err 'reward 3 is none: "bad"'; says out '"rewards/score.sh/mean": 2,'
  run 0 "${grpo[@]}" --overwrite_output_dir --reward_funcs "command:exit 3" think_format_reward --on_reward_error none; says err "exit counts as none for 4 completions"
}
case_a_run_that_was_refused_leaves_no_folder() {
  prompts; mkdir kept
  for output in new/and/deep kept; do
    run 2 "${grpo[@]}" --output_dir "$output"; says err "there is no reward"
    run 1 "${grpo[@]}" --output_dir "$output" --reward_funcs "command:exit 3"; says err "exit code 3"
  done
  [ ! -e new ] && [ -d kept ] || die "$(find new kept)"
  run 0 "${grpo[@]}" --output_dir new/and/deep --reward_funcs think_format_reward --record_rollouts new/and/deep/all.jsonl
  [ -s new/and/deep/model.safetensors ] && [ -s new/and/deep/all.jsonl ] || die "$(find new)"
}
case_a_program_judges_pairs() {
  prompts; scores '[1, 0.5]' '[0, 0.5]'
  local pairs=(online-dpo --model_name_or_path "$model" --dataset_name p.jsonl --output_dir model --bf16 false --max_steps 2
               --per_device_train_batch_size 2 --max_new_tokens 6 --logging_steps 1 --save_strategy no)
  run 0 "${pairs[@]}" --reward_funcs "mine=command:./score.sh" --judge mine
  [ "$(grep -c '"loss"' out)" -eq 2 ] || die "records"; says asked '"other_completions":["'; [ "$(wc -l <asked)" -eq 3 ] || die "asked once a step"
  run 2 "${pairs[@]}" --overwrite_output_dir --reward_funcs "mine=command:./score.sh" --judge yours; says err "judge: 'yours'"
  scores '[1, 0, 1, 0]'; run 1 "${pairs[@]}" --overwrite_output_dir --reward_funcs "mine=command:./score.sh" --judge mine
  says err "it has 4 rewards for 2 completions"
}
case_long_prompts_are_counted_dropped_or_refused() {
  prompts; mkdir short; cp "$model"/* short; sed -i 's/"max_position_embeddings": *[0-9]*/"max_position_embeddings": 40/' short/config.json
  printf '{"prompt":"%s"}\n' "$(yes sea | head -n 60 | tr '\n' ' ')" >>p.jsonl
  local short=("${grpo[@]}" --model_name_or_path short --reward_funcs think_format_reward)
  run 0 "${short[@]}"; says err "p.jsonl: 1 of 3 rows has a prompt of more than 34 tokens"
  run 0 "${short[@]}" --overwrite_output_dir --long_prompts drop --record_rollouts all.jsonl --num_train_epochs 3
  says err "p.jsonl: 1 of 3 rows is dropped by long_prompts"; [ "$(grep -c '"row":2' all.jsonl)" -eq 0 ] || die "not dropped"
  run 1 "${short[@]}" --overwrite_output_dir --long_prompts refuse; says err "p.jsonl:3: its prompt has "; says err "long_prompts: drop"
  run 2 "${short[@]}" --long_prompts keep; says err "give one of count, drop, refuse"
  run 2 "${short[@]}" --long_prompts drop --max_completion_length 40
  says err "max_completion_length: a completion of 40 tokens leaves no prompt any room in the 40 positions of the model"
}
case_a_file_of_rollouts_that_ends_is_refused_at_the_start() {
  prompts; run 0 "${grpo[@]}" --reward_funcs think_format_reward --record_rollouts all.jsonl; head -n 7 all.jsonl >some.jsonl
  run 2 "${grpo[@]}" --overwrite_output_dir --reward_funcs think_format_reward --replay_rollouts some.jsonl
  says err "some.jsonl: it has 7 lines of training (1 generation), and the run needs 8 (2 generations) up to step 2"
  says err "or max_steps: 1"; [ "$(grep -c '"loss"' out)" -eq 0 ] || die "a step was made"
  run 0 "${grpo[@]}" --overwrite_output_dir --reward_funcs think_format_reward --replay_rollouts some.jsonl --max_steps 1
}
case_flags_win_over_the_file() {
  cat >c.yaml <<Y
model_name_or_path: $model
dataset_name: $rows
output_dir: model
bf16: false
max_seq_length: 64
learning_rate: 2.0e-3
max_steps: 50
logging_steps: 1
save_strategy: no
report_to: [wandb]
push_to_hub: false
Y
  run 0 sft --config c.yaml --max-steps 2 --max_length 32 --train_sampling_strategy=sequential
  [ "$(grep -c '"loss"' out)" -eq 2 ] || die "records"
  says err "report_to"
}
case_json_is_a_configuration() {
  printf '{"model_name_or_path": "%s", "dataset_name": "%s", "output_dir": "model", "max_steps": 1, "no_such": 1}' "$model" "$rows" >c.json
  run 2 sft --config c.json; says err "no_such"
}
case_boolean_flags() {
  run 0 "${sft[@]}" --max_steps 1 --no_gradient_checkpointing --logging_first_step --disable_tqdm true
  grep -q 'step 1/1' err && die "progress was shown" || true
}
case_evaluates() {
  run 0 "${sft[@]}" --max_steps 2 --eval_dataset_name "$rows" --eval_strategy steps --eval_steps 1
  [ "$(grep -c '"eval_loss"' out)" -eq 2 ] || die "evaluations"
}

# Half the steps of one epoch come from each file; the rows that are split off are evaluated.
case_eval_measures_as_training_does() {
  mkdir rows && cp "$rows" rows/train.jsonl && head -n 5 "$rows" >rows/test.jsonl
  local eval=(--model_name_or_path "$model" --dataset_name rows --bf16 false)
  run 0 sft "${eval[@]}" --eval_strategy steps --eval_steps 1 --max_steps 1 --learning_rate 0 --output_dir model
  local loss
  loss=$(sed -n 's/.*"eval_loss": \([0-9.]*\).*/\1/p' out | head -n 1)
  [ -n "$loss" ] || die "no eval_loss"
  run 0 eval "${eval[@]}"
  sed -n 's/.*"eval_loss":\([0-9.]*\).*/\1/p' out | awk -v want="$loss" '{ exit !($1 > want - 1e-5 && $1 < want + 1e-5) }' ||
    die "training measured $loss"
  says out '"split":"test"'; says out '"eval_perplexity"'; says out '"eval_mean_token_accuracy"'
  sed 's/"eval_runtime.*per_second":[0-9.]*//' out >want
  local file=(--model_name_or_path "$model" --dataset_name rows/train.jsonl --bf16 false)
  run 0 eval "${file[@]}" --eval_dataset_name rows/test.jsonl; sed 's/"eval_runtime.*per_second":[0-9.]*//' out | cmp - want
  run 0 eval "${file[@]}" --test_split_size 3; says out '"split":"test"'; says err "3 rows"
  run 0 eval "${eval[@]}" --splits train,test; [ "$(wc -l <out)" -eq 2 ] || die "two splits"
  run 0 eval "${eval[@]}" --lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs "{min_lr: 1e-6}"  # of a run's recipe
  run 0 eval "${eval[@]}" --sample_prompts "[Hello]" --sample_max_new_tokens 3; says out '{"prompt":"Hello","completion":"'
  run 2 eval "${eval[@]}" --sample_prompts "[Hello]" --generate.num_return_sequences 2; says err "generate.temperature above 0"
  run 0 eval "${eval[@]}" --generate.keep true; says err "generate.keep: without sample_prompts it has an effect only on generators"
  run 0 eval "${eval[@]}" --sample_prompts "[Hello]" --sample_max_new_tokens 3 --generate.keep true; says err "generate.keep: it has no effect on sample_prompts"
  run 2 eval "${eval[@]}" --splits valid; says err "--splits: 'valid'"; says err "it has: test, train"
  run 2 eval "${eval[@]}" --splits test,; says err "empty name"
  run 2 eval --model_name_or_path "$model"; says err "--dataset_name is needed"
}
# Evaluations of adapters, quantised models and GGUF files agree with those of a run.
case_eval_measures_adapters_and_quantised_models() {
  mkdir rows && cp "$rows" rows/train.jsonl && head -n 5 "$rows" >rows/test.jsonl
  loss_of() { sed -n 's/.*"eval_loss": *\([0-9.]*\).*/\1/p' out | tail -n 1; }
  near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a > b - 1e-5 && a < b + 1e-5) }' || die "$1, expected $2"; }
  local common=(--dataset_name rows --bf16 false) want
  local run=(--eval_strategy steps --eval_steps 2 --max_steps 2 --learning_rate 1e-2 --use_peft --lora_target_modules all-linear)
  run 0 sft "${common[@]}" "${run[@]}" --model_name_or_path "$model" --output_dir adapter; want=$(loss_of)
  run 0 eval "${common[@]}" --model_name_or_path adapter; near "$(loss_of)" "$want"
  ! grep -q "are trained" err || die "a run's log"
  run 0 sft "${common[@]}" "${run[@]}" --model_name_or_path "$model" --load_in_4bit --output_dir four; want=$(loss_of)
  run 0 eval "${common[@]}" --model_name_or_path four --load_in_4bit; near "$(loss_of)" "$want"
  run 0 convert --model_name_or_path "$model" --output model.gguf --type q8_0
  run 0 eval "${common[@]}" --model_name_or_path model.gguf; want=$(loss_of)
  run 0 eval "${common[@]}" --model_name_or_path model.gguf --dtype keep; near "$(loss_of)" "$want"
  run 0 sft "${common[@]}" "${run[@]}" --model_name_or_path model.gguf --dtype keep --output_dir kept; want=$(loss_of)
  run 0 eval "${common[@]}" --model_name_or_path model.gguf --adapter_name_or_path kept --dtype keep; near "$(loss_of)" "$want"
}
# A split that is not there is an error before another is measured.
case_eval_looks_for_its_splits_first() {
  mkdir rows && cp "$rows" rows/train.jsonl && cp "$rows" rows/test.jsonl
  run 2 eval --model_name_or_path "$model" --dataset_name rows --splits train,trian
  [ ! -s out ] || die "the first split was measured"; says err "trian"; says err "test, train"
}
case_eval_gives_rewards() {
  local pairs=$data/data/datasets/train_pref.jsonl
  run 0 reward --model_name_or_path "$model" --dataset_name "$pairs" --output_dir model --max_steps 2 --bf16 false
  run 0 eval --method reward --model_name_or_path model --dataset_name "$pairs" --splits train --bf16 false
  says out '"eval_mean_reward"'; says out '"eval_accuracy"'; ! grep -q perplexity out || die "a perplexity of rewards"
  run 0 eval --method dpo --model_name_or_path "$model" --dataset_name "$pairs" --splits train --bf16 false
  says out '"eval_rewards/margins":0.0'; ! grep -q perplexity out || die "a perplexity of margins"
}
case_a_dry_run_writes_nothing() {
  printf 'learning_rate: 1e-4\nmax_steps: 3\nrun_name: a\ndataset_cache_dir: kept\n' >c.yaml
  local dry=(--config c.yaml --model_name_or_path "$model" --dataset_name "$rows" --output_dir model --max_length 64)
  run 0 sft "${dry[@]}" --dry_run
  says out "learning_rate: 1e-04  # c.yaml:1"; says out "max_length: 64  # flag"; says out "seed: 42  # default"
  says out "run_name: a  # c.yaml:3; ignored"; says out "rows       64 prepared"; says out "steps      3, of about"; says out " free"
  [ -z "$(ls -A | grep -v -x -e c.yaml -e out -e err)" ] || die "written: $(ls -A)"
  lasting() { grep -v -e '^time' -e '^memory' "$1" | sed 's/; [^;]* free$//'; }  # without what other programs change
  mv out first; run 0 validate "${dry[@]}"; lasting out | diff - <(lasting first) >&2 || die "another text"
  # What it prints is a configuration that says the same.
  grep ': .*  # ' first >again.yaml; run 0 sft --config again.yaml --dry_run; says out "learning_rate: 1e-04  # again.yaml:"
  for key in "optim: adamw_torch_fused" "lr_scheduler_type: linear" "dtype: float32" "use_peft: false"; do grep -q "^$key  # default" first || die "no $key"; done
  ! grep -q -e '^lora_r:' -e '^dataloader_num_workers:' first || die "keys that do not matter"
  run 0 sft "${dry[@]}" --dry_run --all; says out "dataloader_num_workers: 0  # default"
  grep ': .*  # ' out >all.yaml; run 0 sft --config all.yaml --dry_run; says out "learning_rate: 1e-04  # all.yaml:"
  run 0 sft "${dry[@]}" --dry_run --report_to tensorboard --overwrite_output_dir --use_peft
  ! grep -e '^report_to' -e '^overwrite' out | grep -q ignored || die "what works is called ignored"; says out "lora_r: 16  # default"
  run 0 sft "${dry[@]}" --dry_run --report_to tensorboard wandb; grep -q '^report_to.*; ignored' out || die "wandb"
  run 2 sft "${dry[@]}" --all; says err "give --dry_run as well"
  run 1 sft "${dry[@]}" --dry_run --max_steps 2000000000 --save_steps 1; says out "memory     "; says err "model: 2000000000 checkpoints of"; says err ", and the disk has"
  run 1 sft "${dry[@]}" --dry_run --runtime.host_memory_limit 1MB; says err "runtime.host_memory_limit: 1 MB is too little: the longest row"
  run 0 sft "${dry[@]}" --dry_run --runtime.host_memory_limit 5MB; says out "memory     "; says out "time       "
  run 1 sft "${dry[@]}" --dry_run --dataset_name gone.jsonl; says err "gone.jsonl"
  run 2 sft "${dry[@]}" --dry_run --eval_strategy steps; says err "eval_dataset_name"
  run 2 sft "${dry[@]}" --dry_run --use_peft --save_format gguf; says err "save_format: gguf saves a whole model"
  run 2 validate "${dry[@]}" --method kto --per_device_train_batch_size 1
}
case_a_dry_run_has_the_warnings_of_the_run() {
  local options=(--model_name_or_path "$model" --dataset_name p.jsonl --output_dir model --bf16 false --per_device_train_batch_size 4 --max_steps 1
                 --save_strategy no --num_generations 2 --max_completion_length 6 --reward_funcs think_format_reward
                 --loss_type cispo --epsilon_high 0.28 --vllm_mode server --use_transformers_paged)
  prompts; run 0 grpo "${options[@]}"; grep -e warning -e 'save_strategy no:' err >want; [ "$(wc -l <want)" -eq 4 ] || die "once each"
  for line in "epsilon_high: with loss_type cispo" "vllm_mode: it has an effect only with use_vllm: true" "keys and values are always held in blocks"; do says want "$line"; done
  run 0 grpo "${options[@]}" --dry_run; grep -e warning -e 'save_strategy no:' err | diff want - >&2 || die "other lines"
  run 0 validate --method grpo "${options[@]}"; grep -e warning -e 'save_strategy no:' err | diff want - >&2 || die "other lines"
  cp -r "$model" own; run 0 grpo "${options[@]}" --model_name_or_path own --output_dir own --dry_run; says err "output_dir is the model's own directory"
}
# Nothing is written that a signal could leave half-done, whatever the dry run is at.
case_a_signal_ends_a_dry_run_at_once() {
  printf '{"text": "%s"}\n' "$(yes 'a light at sea' | head -100000 | tr '\n' ' ')" >long.jsonl
  local child code delay begun
  for delay in 0.3 1.2; do
    "$trl" sft --model_name_or_path "$model" --dataset_name long.jsonl --max_length null --max_steps 1 --output_dir out_dir --dry_run >out 2>err & child=$!
    until grep -q "^# trl sft" out; do kill -0 "$child" || die "it ended"; sleep 0.05; done
    sleep "$delay"; begun=$(date +%s%N); code=0
    kill -TERM "$child" 2>/dev/null || true; wait "$child" || code=$?
    # Where the machine is quick, it has ended by itself.
    [ "$code" -eq 143 ] || { [ "$code" -eq 0 ] && says out "nothing was written"; } || die "exit $code"
    [ $(( ($(date +%s%N) - begun) / 1000000 )) -lt 1000 ] || die "it took more than a second"
  done
}
# The disk fills up during the run: each checkpoint that finds no room is a warning, and the last one stays whole.
case_a_full_disk_costs_checkpoints_alone() {
  mkdir full
  mount -t tmpfs -o size=6m tmpfs full 2>/dev/null || { echo "no tmpfs can be mounted here" >&2; exit 77; }
  trap 'umount -l full; rm -rf "$dir"' EXIT
  "$trl" "${sft[@]}" --output_dir full/model --max_steps 900 --num_train_epochs 99 --save_steps 300 >out 2>err & local run=$! code=0
  until [ -e full/model/checkpoint-300 ]; do kill -0 $run || die "the run ended"; sleep 0.05; done
  head -c 6m /dev/zero >full/filler 2>/dev/null || true
  wait $run || code=$?
  [ "$code" -eq 1 ] || die "exit code $code"
  says err "checkpoint-600 was not saved, and training continues to the next one: "; says err "No space left on device"
  says err "the newest checkpoint is $PWD/full/model/checkpoint-300"; [ "$(ls full/model | grep -c checkpoint)" -eq 1 ] || die "$(ls full/model)"
  rm full/filler; run 0 sft --model_name_or_path "$model" --dataset_name "$rows" --output_dir full/model --bf16 false --max_steps 301 \
    --num_train_epochs 99 --train_sampling_strategy sequential --per_device_train_batch_size 4 --learning_rate 2e-3 --resume_from_checkpoint true
}
case_rows_shows_what_the_trainer_sees() {
  printf '{"prompt":"Who keeps it?","completion":" Ines."}\n{"prompt":"Where?","completion":" Here, on the hill."}\n' >r.jsonl
  local rows=(rows --model_name_or_path "$model" --dataset_name r.jsonl)
  run 0 "${rows[@]}"
  says out "Who keeps it?[ Ines."; says out "Where?[ Here"; says out "row: "; [ "$(grep -c '^--- batch' out)" -eq 2 ] || die "two rows"
  run 0 "${rows[@]}" --count 1 --json; [ "$(wc -l <out)" -eq 1 ] || die "one row"; says out '"batches_per_epoch":2'; says out '"input_ids"'
  run 0 "${rows[@]}" --packing; [ "$(grep -c '^--- batch' out)" -eq 1 ] || die "one packed row"; [ "$(grep -c '^document: ' out)" -eq 2 ] || die "documents"
  run 0 "${rows[@]}" --max_length 5; says out ", cut from "
  run 2 "${rows[@]}" --count none; says err "--count: 'none'"
  printf '{"prompt":"Who?","chosen":" Ines.","rejected":" Nobody."}\n' >p.jsonl
  run 0 rows --method dpo --model_name_or_path "$model" --dataset_name p.jsonl; says out "chosen: "; says out "rejected: "; says out "Who?[ Nobody."
  [ -z "$(find . -name '*trainer_output*')" ] || die "an output directory was made"
}
case_rows_of_alpaca() {
  printf '{"instruction":"Say it","input":"twice","output":"it it","id":3}\n{"instruction":"No","input":null,"output":"ok"}\n' >a.jsonl
  printf '[{"path":"a.jsonl"},{"path":"b.jsonl"}]' >mixture; printf '{"prompt":[{"role":"user","content":"Hm"}],"completion":[{"role":"assistant","content":"so"}]}\n' >b.jsonl
  local with=(--model_name_or_path "$model" --dataset_name a.jsonl --bf16 false)
  run 0 rows --model_name_or_path "$model" --dataset_name a.jsonl; says out "twice<|im_end|>"; says out "[it it<|im_end|>"; says out "[ok<|im_end|>"
  run 0 rows --model_name_or_path "$model" --datasets "$(cat mixture)" --train_sampling_strategy sequential; says out "[so<|im_end|>"; says out "[ok<|im_end|>"
  run 0 rows --model_name_or_path "$model" --dataset_name a.jsonl --dataset_columns '{instruction: prompt, output: completion}'; ! grep -q twice out || die "dataset_columns"
  run 0 template --model_name_or_path "$model" --dataset_name a.jsonl --row 1; [ "$(grep -c '	trained	' out)" -eq 4 ] || die "template"
  run 0 profile --model_name_or_path "$model" --dataset_name a.jsonl; says out "2 rows (prompt and completion as messages), 45 tokens"
  run 0 estimate "${with[@]}" --max_steps 2; says out "peak"
  run 0 eval "${with[@]}"; says out '"eval_loss"'
  run 0 sft "${with[@]}" --output_dir model --max_steps 1 --save_strategy no; says err "a.jsonl: 2 rows, 45 tokens"
}
case_rows_of_a_pipe() {
  local train=(--model_name_or_path "$model" --bf16 false --num_train_epochs 3 --logging_steps 1 --save_strategy no --max_length 64 --per_device_train_batch_size 4)
  head -n 12 "$rows" >r.jsonl; run 0 sft "${train[@]}" --dataset_name r.jsonl --output_dir a; grep -o '"loss": [^,]*' out >want
  gzip -c r.jsonl | run 0 sft "${train[@]}" --dataset_name /dev/stdin --output_dir b; grep -o '"loss": [^,]*' out | cmp - want
  mkfifo p; cat r.jsonl >p & run 0 sft "${train[@]}" --dataset_name p --dataset_streaming --max_steps 9 --output_dir c; [ "$(grep -c '"loss"' out)" -eq 9 ] || die "streamed"
  run 0 rows --model_name_or_path "$model" --dataset_name /dev/stdin <r.jsonl; says out "row: "
  mkfifo q; "$trl" rows --model_name_or_path "$model" --dataset_name q >out 2>err & local waiting=$!  # a writer may never come
  until readlink /proc/$waiting/fd/* 2>/dev/null | grep -q '/q$'; do kill -0 $waiting || die "it ended"; sleep 0.1; done
  kill -INT $waiting
  local code=0; wait $waiting || code=$?; [ "$code" -ne 0 ] && [ "$code" -lt 137 ] || die "exit code $code"; says err "stopping"
}
case_splits_that_do_not_exist() {
  run 2 sft --model_name_or_path "$model" --dataset_name "$rows" --output_dir m --dataset_train_split trian
  says err "dataset_train_split: 'trian': $rows has no split 'trian'; it has: train"; [ "$(wc -l <err)" -eq 1 ] || die "more than a line"
  run 2 rows --model_name_or_path "$model" --dataset_name "$rows" --eval_strategy steps --dataset_test_split validation
  says err "dataset_test_split: 'validation': $rows has no split 'validation'; it has: train"
  run 2 sft --model_name_or_path "$model" --dataset_name "$rows" --output_dir m --dataset_train_split test; says err "it has: train"
  local eval=(eval --model_name_or_path "$model" --bf16 false --dataset_name)
  run 0 "${eval[@]}" "$rows"; says out '"split":"train"'
  run 2 "${eval[@]}" "$rows" --splits test; says err "--splits: 'test'"; says err "it has: train"
  mkdir d && head -n 4 "$rows" >d/train.jsonl; run 2 "${eval[@]}" d; says err "--splits: 'test'"; says err "it has: train"
}
case_generate_reads_rows_as_prompts() {
  local generate=(generate --model_name_or_path "$model" --max_new_tokens 8 --json)
  run 0 "${generate[@]}" --chat --prompt "Who keeps it?"; sed 's/.*"completion"/"completion"/' out >want
  local user='{"role":"user","content":"Who keeps it?"}' answer='{"role":"assistant","content":"Ines."}'
  printf '%s\n' "{\"messages\":[$user,$answer]}" "{\"prompt\":[$user],\"completion\":[$answer]}" '{"conversations":[{"from":"human","value":"Who keeps it?"},{"from":"gpt","value":"Ines."}]}' >r.jsonl
  run 0 "${generate[@]}" --prompts r.jsonl; [ "$(wc -l <out)" -eq 3 ] || die "three prompts"
  sed 's/.*"completion"/"completion"/' out | sort -u | cmp - want
  printf '[{"messages":[%s,%s]}]' "$user" "$answer" >r.json; run 0 "${generate[@]}" --prompts r.json; sed 's/.*"completion"/"completion"/' out | cmp - want
  printf '{"instruction":"Who keeps it?","input":"","output":"Ines."}\n{"prompt":"Who keeps it?"}\n' >t.jsonl
  run 0 "${generate[@]}" --chat --prompts t.jsonl; sed 's/.*"completion"/"completion"/' out | sort -u | cmp - want
  printf '\357\273\277\n {"prompt":"Who keeps it?"}\n' >mark; run 0 "${generate[@]}" --chat --prompts mark; sed 's/.*"completion"/"completion"/' out | cmp - want
  cat t.jsonl r.jsonl >both; run 1 "${generate[@]}" --prompts both; says err "some prompts are texts and some are messages"
  run 0 "${generate[@]}" --chat --prompts both; sed 's/.*"completion"/"completion"/' out | sort -u | cmp - want
  printf '{\n  "messages": [\n    %s,\n    %s\n  ]\n}\n' "$user" "$answer" >one.json; run 0 "${generate[@]}" --prompts one.json; sed 's/.*"completion"/"completion"/' out | cmp - want
  printf '[\n  "Who keeps it?",\n  "Who keeps it?"\n]\n' >texts.json; run 0 "${generate[@]}" --chat --prompts texts.json; [ "$(wc -l <out)" -eq 2 ] || die "two texts"
  sed 's/.*"completion"/"completion"/' out | sort -u | cmp - want
  echo '[]' >none; run 1 "${generate[@]}" --prompts none; says err "none: holds no prompts"
  printf '{"text":"a"}\n' >none; run 1 "${generate[@]}" --prompts none; says err 'none:1: there is no "prompt"'
  printf '{"prompt":[5,6]}\n' >none; run 1 "${generate[@]}" --prompts none; says err 'none:1: "prompt" is a list of something other than messages'
  printf '{"messages":[%s]}\n{"messages":[{"content":"x"}]}\n' "$user" >none; run 1 "${generate[@]}" --prompts none; says err 'none:2: "messages" is a list'
}
case_refuses_json_that_is_nested_too_deep() {
  local deep; deep=$(printf '[%.0s' {1..30000})$(printf ']%.0s' {1..30000})
  printf '{"messages": [%s]}\n' "$deep" >deep.jsonl
  printf '{"prompt": "a"}\n{"messages": [' >p.jsonl; printf '[%.0s' {1..300000} >>p.jsonl; printf ']%.0s' {1..300000} >>p.jsonl; echo ']}' >>p.jsonl
  run 1 generate --model_name_or_path "$model" --prompts deep.jsonl; says err "deep.jsonl:1: not valid JSON, or nested deeper than 128"
  run 1 generate --model_name_or_path "$model" --prompts p.jsonl; says err "p.jsonl:2: not valid JSON, or nested deeper than 128"
  run 2 tokenize --model_name_or_path "$model" --decode --text "{\"input_ids\": $deep}"; says err "is not the id of a token"
}
case_generate_refuses_compressed_prompts() {
  local generate=(generate --model_name_or_path "$model" --max_new_tokens 8 --prompts)
  printf '{"prompt":"a"}\n' | gzip -c >p.jsonl.gz; run 1 "${generate[@]}" p.jsonl.gz; says err "gzip -dc p.jsonl.gz | trl generate --prompts -"
  printf '\x28\xb5\x2f\xfd\x00' >p.zst; run 1 "${generate[@]}" p.zst; says err "zstd -dc p.zst | trl"; [ ! -s out ] || die "completed"
}
case_chat_answers_and_saves() {
  printf 'one two\n/save said.jsonl\n/reset\n/nothing\n/exit\nnever read\n' >typed
  "$trl" chat --model_name_or_path "$model" --max_new_tokens 8 --system "Be brief." <typed >out 2>err || die "chat"
  says out "saved in said.jsonl"; says out "/nothing: there is no such command"
  says said.jsonl '{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"one two"},{"role":"assistant","content":'
  run 0 sft --model_name_or_path "$model" --dataset_name said.jsonl --bf16 false --max_steps 1 --output_dir model
  run 2 chat; says err "--model_name_or_path is needed"
}
# On a terminal: Ctrl-C ends the answer, a half-typed line is dropped, Ctrl-D leaves.
case_chat_on_a_terminal() {
  command -v python3 >/dev/null || { echo "no python3" >&2; exit 77; }
  python3 -c 'import pty; pty.openpty()' 2>/dev/null || { echo "no pseudo-terminal can be made here" >&2; exit 77; }
  python3 - "$trl" "$model" <<'PY' || die "chat on a terminal"
import os, pty, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
    os.execv(sys.argv[1], [sys.argv[1], "chat", "--model_name_or_path", sys.argv[2], "--max_new_tokens", "100000"])
seen = b""
def until(text):  # reads what is said, to the end of text
    global seen
    end = time.time() + 120
    while text not in seen:
        if time.time() > end: sys.exit(f"{text!r} does not come: {seen[-500:]!r}")
        if select.select([fd], [], [], 0.2)[0]: seen += os.read(fd, 4096)
    seen = seen.split(text, 1)[1]
until(b"> ")  # from here on Ctrl-C and Ctrl-D are keys of the line, until the line ends
os.write(fd, "one two thr\u00e9e\r".encode())
while len(seen) < 500: seen += os.read(fd, 4096)  # the answer is under way
os.write(fd, b"\x03")
until(b"[interrupted]")
until(b"> ")
os.write(fd, b"half a line")
until(b"line")
os.write(fd, b"\x03")
until(b"> ")
os.write(fd, b"/save said.jsonl\r")
until(b"saved in said.jsonl")
until(b"> ")
os.write(fd, b"\x04")
end, ended, status = time.time() + 120, 0, 0
while not ended:
    if time.time() > end: sys.exit("Ctrl-D does not end it")
    time.sleep(0.1)
    ended, status = os.waitpid(pid, os.WNOHANG)
assert os.waitstatus_to_exitcode(status) == 0
PY
  says said.jsonl 'one two thrée'
}
case_mixtures_and_splits() {
  head -n 12 "$rows" >a.jsonl; head -n 16 "$rows" | gzip >b.jsonl.gz
  printf 'datasets:\n- {path: a.jsonl, fraction: 1}\n- {path: b.jsonl.gz, fraction: 1}\ntest_split_size: 4\n' >c.yaml
  run 0 sft --model_name_or_path "$model" --config c.yaml --output_dir model --bf16 false --num_train_epochs 1 \
    --per_device_train_batch_size 5 --logging_steps 1 --eval_strategy epoch --dataset_name gone.jsonl
  [ "$(grep -c '"loss"' out)" -eq 4 ] || die "records"
  [ "$(grep -c '"eval_loss"' out)" -eq 1 ] || die "evaluations"
  says err "dataset_name is not read"
}
case_a_directory_of_splits() {
  mkdir d; head -n 8 "$rows" >d/train-0.jsonl; printf 'text\n"A cat, and\na dog."\n' >d/test.csv
  run 0 sft --model_name_or_path "$model" --dataset_name d --output_dir model --bf16 false --num_train_epochs 1 \
    --per_device_train_batch_size 4 --logging_steps 1 --eval_strategy epoch
  [ "$(grep -c '"loss"' out)" -eq 2 ] || die "records"
  [ "$(grep -c '"eval_loss"' out)" -eq 1 ] || die "evaluations"
}
# Each is one error that names the file, before anything is trained; nothing crashes.
case_bad_input() {
  local train=(sft --model_name_or_path "$model" --output_dir m --bf16 false --dataset_name)
  : >empty.jsonl; run 1 "${train[@]}" empty.jsonl; says err "empty.jsonl: holds no rows"
  printf '[{"text": "a"},\n {"text": "b"' >early.json; run 1 "${train[@]}" early.json; says err "early.json:2:14"
  gzip -c "$rows" | head -c 500 >cut.jsonl.gz; run 1 "${train[@]}" cut.jsonl.gz; says err "cut.jsonl.gz"
  : >none.jsonl.gz; run 1 "${train[@]}" none.jsonl.gz; says err "the file is truncated"
  printf 'text\n"a\n' >open.csv; run 1 "${train[@]}" open.csv; says err "open.csv:2"
  printf 'text\na,b\n' >ragged.csv; run 1 "${train[@]}" ragged.csv; says err "ragged.csv:2"
  printf '{"text": "\xff"}\n' >bytes.jsonl; run 1 "${train[@]}" bytes.jsonl; says err "bytes.jsonl:1:11: invalid UTF-8"
  printf '{"txt": "a"}\n' >column.jsonl; run 1 "${train[@]}" column.jsonl; says err "column.jsonl:1"
  printf 'PAR1' >rows.parquet; run 1 "${train[@]}" rows.parquet; says err "rows.parquet"
  mkdir folder; run 1 "${train[@]}" folder; says err "folder: the directory holds no files of rows"
  run 1 "${train[@]}" 'folder/*.jsonl'; says err "no file matches"
  [ ! -e m/model.safetensors ] || die "a model was saved"
}
case_adapters_that_do_not_fit_are_refused() {
  refused() { local what=$1; shift; run 2 "${sft[@]}" --output_dir m --use_peft "$@"; says err "$what"; [ ! -e m/adapter_config.json ]; }
  refused "the model has embed_tokens, q_proj" --lora_target_modules query
  refused "the output head (lm_head)" --lora_target_modules lm_head
  refused "is not a valid regular expression" --lora_target_modules "q_(proj"
  refused "is not a layer of this model" --lora_target_modules q_proj v_proj --peft_config "{layers_to_transform: [9]}"
  refused "lora_r" --lora_r 0
  refused "r: 900 does not fit" --lora_r 900
  refused "give one of them" --load_in_4bit --load_in_8bit
  refused "'IA3' is not supported" --peft_config "{peft_type: IA3}"
  refused "EVA is not built" --peft_config "{eva_config: {rho: 2}}"
  refused "olora and pissa take a part out of the weights" --peft_config "{init_lora_weights: pissa}" --load_in_4bit
  run 2 "${sft[@]}" --load_in_4bit; says err "only adapters on top of them"
}
case_rows_must_be_named() { run 2 sft --model_name_or_path "$model" --output_dir m; says err "dataset_name"; }

# interrupted SIGNAL CODE: after the first record; the checkpoint is a model, and the run resumes from it
interrupted() {
  local long=(--logging_steps 1 --save_strategy no --num_train_epochs 3)
  "$trl" "${sft[@]}" "${long[@]}" --max_steps 100000 >out 2>err &
  local child=$! code=0
  for _ in $(seq 600); do grep -q loss out && break; sleep 0.1; done
  kill -"$1" "$child"
  wait "$child" || code=$?
  [ "$code" -eq "$2" ] || die "exit code $code, expected $2"
  says err "--resume_from_checkpoint model/checkpoint-"
  local checkpoint
  checkpoint=$(grep -o 'model/checkpoint-[0-9]*' err | tail -1)
  local step=${checkpoint##*-}
  [ -s "$checkpoint/optimizer.safetensors" ] || die "no checkpoint"
  [ -s model/trainer_state.json ] || die "model/trainer_state.json is missing"
  grep -q "\"global_step\": $step" "$checkpoint/trainer_state.json" || die "trainer_state.json is not of step $step"
  run 0 generate --model_name_or_path "$checkpoint" --prompt "It opens" --max_new_tokens 2
  run 0 "${sft[@]}" "${long[@]}" --max_steps $((step + 1)) --resume_from_checkpoint "$checkpoint"
  [ "$(grep -c '"loss"' out)" -eq 1 ] || die "it did not resume from step $step"
  says err "max_steps is $((step + 1)), the checkpoint was made with 100000"
}
# while rows are read, before there is a trainer
case_a_signal_before_the_first_step_ends_at_once() {
  local code=0 child
  mkfifo slow.jsonl
  sleep 60 >slow.jsonl & local writer=$!
  "$trl" sft --model_name_or_path "$model" --output_dir m --dataset_name slow.jsonl >out 2>err & child=$!
  local caught=0  # signals 2 and 15 are bits 1 and 14
  while kill -0 "$child" && (( (0x$caught & 0x4002) != 0x4002 )); do
    sleep 0.1
    caught=$(sed -n 's/^SigCgt:\s*//p' "/proc/$child/status" || echo 0)
  done
  kill -TERM "$child"; wait "$child" || code=$?
  kill "$writer"
  [ "$code" -eq 143 ] || die "exit code $code, expected 143"
  says err "there is nothing to save"
}
case_sigint_saves_and_ends_with_130() { interrupted INT 130; }
case_sigterm_saves_and_ends_with_143() { interrupted TERM 143; }
case_sighup_saves_and_ends_with_129() { interrupted HUP 129; }
case_an_ignored_sighup_stays_ignored() {
  local code=0 before
  (trap '' HUP; exec "$trl" "${sft[@]}" --logging_steps 1 --save_strategy no --max_steps 100000) >out 2>err &
  local child=$!
  for _ in $(seq 600); do grep -q loss out && break; sleep 0.1; done
  kill -HUP "$child"
  before=$(grep -c loss out)
  for _ in $(seq 600); do [ "$(grep -c loss out)" -gt $((before + 2)) ] && break; sleep 0.1; done
  [ "$(grep -c loss out)" -gt $((before + 2)) ] || die "the run ended"
  kill -TERM "$child"; wait "$child" || code=$?
  [ "$code" -eq 143 ] || die "exit code $code, expected 143"
}
# Nor may root make files there, although access(2) says so. Rows are not read: there are none.
case_an_output_dir_that_takes_no_files_is_refused_before_rows_are_read() {
  local folder; mkdir there
  for folder in /proc /sys /proc/self /proc/self/fd /sys/kernel /dev/pts; do
    run 1 sft --model_name_or_path "$model" --dataset_name gone.jsonl --output_dir "$folder" --dry_run
    says err "output_dir: $folder"; says err "cannot be written into"
    run 1 sft --model_name_or_path "$model" --dataset_name gone.jsonl --output_dir "$folder"; says err "output_dir: $folder"
    run 1 sft --model_name_or_path "$model" --dataset_name gone.jsonl --output_dir "$folder/new"; says err "output_dir: $folder"
  done
  local logs=(sft --model_name_or_path "$model" --dataset_name gone.jsonl --output_dir new --logging_dir /proc/y)
  run 1 "${logs[@]}" --report_to tensorboard; says err "logging_dir: /proc"; says err "cannot be written into"
  run 1 "${logs[@]}"; says err "gone.jsonl"; ! grep -q logging_dir: err || die "a folder that nothing is written into"
  run 2 sft --model_name_or_path "$model" --dataset_name gone.jsonl --output_dir ""; says err "output_dir: it is empty"
  [ ! -e trainer_output ] || die "trainer_output was made"
  exec 5<there
  run 0 "${sft[@]}" --output_dir /proc/self/fd/5 --max_steps 1; [ -s there/model.safetensors ] || die "$(ls there)"
  [ -z "$(find there -name '.trl*')" ] || die "left: $(ls -A there)"
}
case_resumes_from_the_newest_checkpoint() {
  run 0 "${sft[@]}" --max_steps 3 --save_steps 1 --save_total_limit 2
  [ "$(cd model && echo checkpoint-*)" = "checkpoint-2 checkpoint-3" ] || die "$(ls model)"
  cp model/model.safetensors whole
  rm -r model/checkpoint-3
  run 1 "${sft[@]}" --max_steps 3; says err "belongs to another run"
  # It is told before any row is read, and by a dry run too, which also looks for the checkpoint.
  run 1 "${sft[@]}" --dataset_name gone.jsonl; says err "belongs to another run. To continue that run, give resume_from_checkpoint auto."
  run 1 "${sft[@]}" --max_steps 3 --dry_run; says err "To replace it, give overwrite_output_dir true."
  run 0 "${sft[@]}" --max_steps 3 --dry_run --overwrite_output_dir true; [ -d model/checkpoint-2 ] || die "a dry run removed a checkpoint"
  run 1 "${sft[@]}" --dry_run --resume_from_checkpoint model/checkpoint-9; says err "resume_from_checkpoint: model/checkpoint-9: there is no such checkpoint"
  run 2 "${sft[@]}" --dry_run --output_dir other --resume_from_checkpoint true; says err "other holds no checkpoint that can be resumed"
  run 0 "${sft[@]}" --max_steps 3 --dry_run --resume_from_checkpoint auto
  run 0 "${sft[@]}" --max_steps 3 --save_steps 1 --save_total_limit 2 --resume_from_checkpoint true
  cmp model/model.safetensors whole || die "other weights"
  printf x | dd of=model/checkpoint-3/model.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
  run 1 "${sft[@]}" --max_steps 3 --resume_from_checkpoint model/checkpoint-3
  says err "model/checkpoint-3/model.safetensors: the checkpoint is damaged"
  run 0 "${sft[@]}" --max_steps 3 --save_steps 1 --resume_from_checkpoint auto
  says err "it is skipped"
  cmp model/model.safetensors whole || die "other weights"
  run 2 "${sft[@]}" --max_steps 3 --output_dir fresh --resume_from_checkpoint true
  says err "fresh holds no checkpoint"
  run 0 "${sft[@]}" --max_steps 1 --output_dir fresh --resume_from_checkpoint auto
}

case_samples_while_it_trains() {
  printf 'It opens today\n\nWhat does it do?\n' >prompts.txt
  run 0 "${sft[@]}" --max_steps 3 --save_strategy no --report_to html --sample_prompts prompts.txt --sample_steps 2 \
    --sample_max_new_tokens 5
  says err "sample of step 2: 'It opens today' -> '"; says err "sample of step 3: 'What does it do?' -> '"
  [ "$(grep -c '"completion"' model/samples.jsonl)" -eq 4 ] || die "$(cat model/samples.jsonl)"
  says model/report.html "<td>It opens today</td>"; ! grep -q completion out || die "a sample among the records"
  run 1 "${sft[@]}" --sample_prompts gone.txt; says err "sample_prompts: 'gone.txt' does not exist"
  run 1 "${sft[@]}" --sample_prompts gone.txt --dry_run; says err "sample_prompts: 'gone.txt' does not exist"
  run 2 "${sft[@]}" --sample_prompts '[]'; says err "sample_prompts: the list is empty"
  run 2 reward "${sft[@]:1}" --sample_prompts one two; says err "sample_prompts: a reward model scores text"
}
case_generate_writes_the_completion_alone() {
  run 0 generate --model_name_or_path "$model" --prompt "It opens today" --max_new_tokens 5
  [ ! -s err ] || die "stderr"
  cp out first
  run 0 generate --model_name_or_path "$model" --prompt "It opens today" --max_new_tokens 5 --temperature 0
  cmp -s out first || die "greedy is not the default"
}
case_generate_that_fails_prints_nothing() {
  run 1 generate --model_name_or_path "$model" --prompt $'It \xff'
  says err "UTF-8"
  [ ! -s out ] || die "stdout"
}
case_generate_samples_by_seed() {
  for seed in 1 1 2; do
    run 0 generate --model_name_or_path "$model" --prompt "It opens" --max_new_tokens 12 --temperature 1.5 --seed $seed
    mv out "out.$seed.$((++n))"
  done
  cmp -s out.1.1 out.1.2 || die "the same seed gave another text"
  cmp -s out.1.1 out.2.3 && die "another seed gave the same text" || true
}
n=0
case_generate_chat_wraps_the_prompt() {
  run 0 generate --model_name_or_path "$model" --prompt "It opens" --max_new_tokens 5; cp out plain
  run 0 generate --model_name_or_path "$model" --prompt "It opens" --max_new_tokens 5 --chat
  cmp -s out plain && die "--chat changed nothing" || true
}
case_converts_to_gguf_and_back() {
  run 0 convert --model_name_or_path "$model" --output m.gguf --type f32; [ ! -s out ] || die "convert printed"
  [ "$(cat err)" = "trl: info: saved m.gguf" ] || die "more than a line"
  run 0 convert --model_name_or_path m.gguf --output back
  for path in "$model" m.gguf back; do
    run 0 generate --model_name_or_path "$path" --prompt "Once upon" --max_new_tokens 8; mv out "out.${path##*/}"
  done
  cmp out.qwen2 out.m.gguf && cmp out.qwen2 out.back || die "another model"
  run 2 convert --model_name_or_path "$model"; says err "--output"
  run 2 convert --model_name_or_path "$model" --output x.gguf --type q4_k; says err "q4_0"
  run 1 convert --model_name_or_path "$model" --output gone/x.gguf; says err "gone/x.gguf: cannot be written"; ! grep -q tmp err || die "tmp"
  run 1 convert --model_name_or_path m.gguf --output x --type q8_0; says err "f32, f16, bf16"; [ ! -e x ] || die "x"
  run 1 convert --model_name_or_path gone --output x.gguf; says err "gone"
}
# bytes_of FILE...: together
bytes_of() { cat "$@" | wc -c; }
case_the_name_of_the_output_says_what_is_written() {
  run 0 convert --model_name_or_path "$model" --output cast --type bf16; [ -s cast/model.safetensors ] || die "no directory"
  grep -q '"bfloat16"' cast/config.json || die "dtype"
  [ "$(bytes_of cast/model.safetensors)" -lt $(( $(bytes_of "$model"/model.safetensors) * 6 / 10 )) ] || die "not cast"
  run 0 convert --model_name_or_path cast --output cast.gguf; [ -f cast.gguf ] || die "no file"
  run 0 convert --model_name_or_path cast.gguf --output q.gguf --type Q8_0; [ -f q.gguf ] || die "no file"
  [ "$(bytes_of q.gguf)" -lt "$(bytes_of cast.gguf)" ] || die "not quantised"
  run 0 convert --model_name_or_path q.gguf --output plain; grep -q '"float32"' plain/config.json || die "block types"
  for path in cast cast.gguf q.gguf plain; do
    run 0 generate --model_name_or_path $path --prompt "Once upon" --max_new_tokens 8; mv out "out.$path"
  done
  cmp out.cast out.cast.gguf && cmp out.q.gguf out.plain || die "another model"
  run 2 convert --model_name_or_path "$model" --output x --dtype float32; says err "dtype: it is only for save.kind: merged"
  run 2 convert --model_name_or_path "$model" --output x --base "$model"; says err "convert.base: it is for an adapter"
}
case_converts_replace_only_with_overwrite() {
  run 0 convert --model_name_or_path "$model" --output m.gguf; run 0 convert --model_name_or_path "$model" --output dir
  cp m.gguf before
  run 2 convert --model_name_or_path "$model" --output m.gguf --type q8_0; says err "m.gguf exists"; says err "--overwrite"
  cmp m.gguf before || die "replaced"
  run 2 convert --model_name_or_path "$model" --output dir --type bf16; says err "dir/"; says err "--overwrite"
  run 0 convert --model_name_or_path "$model" --output m.gguf --type q8_0 --overwrite; cmp -s m.gguf before && die "not replaced"
  run 0 convert --model_name_or_path "$model" --output dir --type bf16 --overwrite; grep -q bfloat16 dir/config.json || die "not replaced"
  mkdir empty; run 0 convert --model_name_or_path "$model" --output empty; [ -s empty/config.json ] || die "empty"
}
case_merges_an_adapter_in_the_type_that_is_asked_for() {
  run 0 convert --model_name_or_path "$model" --output base --type bf16
  run 0 sft --model_name_or_path base --dataset_name "$rows" --output_dir a --max_steps 2 --bf16 false --use_peft --learning_rate 0.01
  local merge=(convert --model_name_or_path a --save.kind merged)
  run 0 "${merge[@]}" --output auto; grep -q '"bfloat16"' auto/config.json || die "auto"
  run 0 "${merge[@]}" --output f16 --type f16; grep -q '"float16"' f16/config.json || die "f16"
  run 0 "${merge[@]}" --output f32 --dtype float32; grep -q '"float32"' f32/config.json || die "f32"
  run 0 "${merge[@]}" --output auto.gguf; run 0 "${merge[@]}" --output q8.gguf --type q8_0
  [ -f auto.gguf ] && [ -f q8.gguf ] && [ "$(bytes_of q8.gguf)" -lt "$(bytes_of auto.gguf)" ] || die "files"
  [ "$(bytes_of auto/model.safetensors)" -lt "$(bytes_of f32/model.safetensors)" ] || die "sizes"
  for path in auto auto.gguf; do
    run 0 generate --model_name_or_path $path --dtype auto --prompt "Once upon" --max_new_tokens 8; mv out "out.$path"
  done
  cmp out.auto out.auto.gguf || die "another model"
  run 1 "${merge[@]}" --output x --type q4_0; says err "f32, f16, bf16"
  run 2 "${merge[@]}" --output x --type f16 --dtype bfloat16; says err "contradicts dtype"
  run 2 "${merge[@]}" --output x --adapter_name_or_path a; says err "is an adapter itself"
  run 0 convert --model_name_or_path base --adapter_name_or_path a --save.kind merged --output same
  cmp same/model.safetensors auto/model.safetensors || die "another merge"
  run 0 convert --model_name_or_path a --output a16 --type bf16; [ -s a16/adapter_model.safetensors ] || die "no adapter"
  [ "$(bytes_of a16/adapter_model.safetensors)" -lt "$(bytes_of a/adapter_model.safetensors)" ] || die "not cast"
  run 0 generate --model_name_or_path a16 --prompt "Once upon" --max_new_tokens 4
  [ ! -e x ] || die "x"
}
case_a_model_is_not_saved_beside_an_adapter() {
  run 0 "${sft[@]}" --output_dir a --max_steps 1 --use_peft; cp -r a before
  run 1 convert --model_name_or_path a --save.kind merged --output a --overwrite; says err "a/adapter_config.json is there"
  run 1 convert --model_name_or_path "$model" --output a --overwrite; says err "a/adapter_config.json is there"
  run 1 "${sft[@]}" --output_dir a --max_steps 1 --save_strategy no; says err "a/adapter_config.json is there"
  [ ! -s out ] && diff -r a before || die "something was trained or written"
  run 0 "${sft[@]}" --output_dir a --max_steps 1 --save_strategy no --use_peft
}
case_an_adapter_in_a_gguf_file_is_not_a_model() {
  run 0 "${sft[@]}" --output_dir a --max_steps 1 --use_peft; run 0 convert --model_name_or_path a --output a.gguf
  run 1 generate --model_name_or_path a.gguf --prompt x; says err "a.gguf: it is the GGUF file of a LoRA adapter"
  run 1 tokenize --model_name_or_path a.gguf --text x; says err "a.gguf: it is the GGUF file of a LoRA adapter"
  run 1 convert --model_name_or_path a.gguf --output x; says err "a.gguf: it is the GGUF file of a LoRA adapter"; [ ! -e x ] || die "x"
}
case_converts_a_reward_model() {
  local pairs=$data/data/datasets/train_pref.jsonl
  run 0 reward --model_name_or_path "$model" --dataset_name "$pairs" --output_dir a --max_steps 2 --bf16 false --use_peft
  run 0 convert --model_name_or_path a --save.kind merged --output whole; grep -q ForSequenceClassification whole/config.json || die "class"
  run 0 convert --model_name_or_path whole --output half --type bf16; grep -q bfloat16 half/config.json || die "not cast"
  for path in whole half; do
    grep -q score.weight $path/model.safetensors || die "no score"
    run 0 eval --method reward --model_name_or_path $path --dataset_name "$pairs" --splits train --bf16 false
  done
  run 1 convert --model_name_or_path whole --output x.gguf; says err "classifier"; [ ! -e x.gguf ] || die "x.gguf"
  run 1 convert --model_name_or_path a --output x.gguf; says err "the score head of a reward model"
}
case_merges_an_adapter_into_quantised_weights() {
  run 0 convert --model_name_or_path "$model" --output m.gguf --type q8_0
  run 0 sft --model_name_or_path m.gguf --dtype keep --dataset_name "$rows" --output_dir a --max_steps 2 --bf16 false --use_peft --learning_rate 0.01
  run 0 convert --model_name_or_path m.gguf --dtype keep --adapter_name_or_path a --save.kind merged --output kept
  run 0 convert --model_name_or_path "$model" --load_in_4bit --adapter_name_or_path a --save.kind merged --output four
  for path in kept four; do
    run 0 generate --model_name_or_path $path --prompt "It opens" --max_new_tokens 3
    grep -q quantization_config $path/config.json && die "$path is quantised"; [ -s $path/model.safetensors ] || die "$path"
  done
  cmp -s kept/model.safetensors four/model.safetensors && die "the same weights"
  run 2 convert --model_name_or_path a --output x.gguf --load_in_4bit; says err "load_in_4bit: it is only for save.kind: merged"
  run 2 convert --model_name_or_path a --output x --save.kind adapter; says err "merged is the kind"; run 2 convert --model_name_or_path a --output x.gguf --dtype keep; says err "dtype: it is only for save.kind: merged"
  run 2 convert --model_name_or_path "$model" --output x --save.kind merged; says err "merged needs an adapter"; [ ! -e x ] || die "x"
}
case_a_misspelt_flag_is_one_of_the_command() {
  run 2 convert --model_name_or_path "$model" --output x.gguf --typ f32; says err "did you mean --type?"
  run 2 tokenize --model_name_or_path "$model" --tex x; says err "did you mean --text?"
  run 2 tokenize --model_name_or_path "$model" --text_file x; says err "did you mean --text?"
  run 2 generate --model_name_or_path "$model" --prompts_file x; says err "--prompts_file: not an option of trl generate; did you mean --prompts?"
  run 2 generate --model_name_or_path "$model" --prompts-file x; says err "did you mean --prompts?"
  run 2 chat --model_name_or_path "$model" --suppress 5; says err "did you mean --suppress_tokens?"
  run 2 convert --model_name_or_path "$model" --type_of_weights f32; says err "did you mean --type?"
}
# waits_for_signals PID: until it catches SIGINT (bit 1), as trl: before, the process is still a shell, which
# would end and remove the directory.
waits_for_signals() {
  local caught=0
  for _ in $(seq 100); do
    [ "$(readlink "/proc/$1/exe")" = "$(readlink -f "$trl")" ] || { sleep 0.1; continue; }
    caught=$(sed -n 's/^SigCgt:\s*//p' "/proc/$1/status" || echo 0)
    (( (0x$caught & 0x2) == 0x2 )) && return
    sleep 0.1
  done
  kill -KILL "$1"; die "SIGINT is not caught"
}
# The call waits for its tokenizer while the signal comes.
case_an_interrupted_convert_leaves_nothing() {
  local code=0
  cp -r "$model" slow; rm slow/tokenizer.json; mkfifo slow/tokenizer.json
  "$trl" convert --model_name_or_path slow --output x.gguf >out 2>err & local child=$!
  waits_for_signals "$child"
  kill -INT "$child"; sleep 0.3
  cat "$model/tokenizer.json" >slow/tokenizer.json
  wait "$child" || code=$?
  [ "$code" -eq 130 ] || die "exit code $code, expected 130"
  says err "stopped: x.gguf was not written"
  [ -z "$(find . -name 'x.gguf*')" ] || die "left: $(ls)"
}
case_an_interrupted_tokenize_says_so() {
  local code=0
  cp -r "$model" slow; rm slow/tokenizer.json; mkfifo slow/tokenizer.json
  "$trl" tokenize --model_name_or_path slow --text x >out 2>err & local child=$!
  waits_for_signals "$child"
  kill -INT "$child"; wait "$child" || code=$?
  [ "$code" -eq 130 ] || die "exit code $code, expected 130"
  says err "trl: stopped"
}
case_saves_as_gguf() {
  run 0 "${sft[@]}" --max_steps 2 --save_strategy no; mv model plain
  run 0 "${sft[@]}" --max_steps 2 --save_strategy no --save_format gguf
  [ -s model/model.gguf ] && [ ! -e model/model.safetensors ] || die "files: $(ls model)"
  says model/README.md "# model"; says plain/README.md "- generated_from_trainer"
  for path in plain model/model.gguf model; do
    run 0 generate --model_name_or_path "$path" --prompt "Once upon" --max_new_tokens 8; mv out "out.${path##*/}"
  done
  cmp out.plain out.model.gguf && cmp out.plain out.model || die "another model"
  run 0 convert --model_name_or_path model --output back; [ -s back/model.safetensors ] || die "back"
  run 0 tokenize --model_name_or_path model --text "Once"
}
case_generate_needs_a_prompt() {
  run 2 generate --model_name_or_path "$model" </dev/null; says err "--prompt"
  run 2 generate --model_name_or_path "$model" --prompt ""; says err "prompt 1 of 1 is empty"
}
case_an_empty_name_is_no_configuration() { run 2 sft --config ""; says err "--config: a file is expected"; }
estimate=(estimate --model_name_or_path "$model" --max_length 128 --max_steps 20 --output_dir nothing)
case_estimate_tells_memory_time_and_disk() {
  run 0 "${estimate[@]}"; says out "optimizer state"; says out "peak"; says out "tokens/s"; says out "for 20 steps"
  says out "for the model"; [ ! -e nothing ] || die "output_dir was made"
  run 0 "${estimate[@]}" --json --report plan.html
  grep -q '"peak_bytes"' out || die "no numbers"; grep -q "<svg" plan.html || die "no picture"
  run 0 "${estimate[@]}" --dataset_name "$rows"; says out "for 20 steps"
}
case_estimate_is_of_any_trainer() {
  local pairs="$data/data/datasets/train_pref.jsonl"
  run 0 "${estimate[@]}" --method dpo --beta 0.2 --dataset_name "$pairs" --json; says out '"tokens":'
  mv out dpo; run 0 "${estimate[@]}" --dataset_name "$pairs" --json --method=reward; says out '"tokens":'
  run 2 "${estimate[@]}" --beta 0.2; says err "beta"
  run 2 "${estimate[@]}" --method dop; says err "'dop'"
}
case_estimate_refuses_what_is_wrong() {
  run 2 estimate; says err "--model_name_or_path is required"
  run 2 "${estimate[@]}" --max_length null; says err "max_length"
  run 1 "${estimate[@]}" --report gone/plan.html; says err "gone"
  run 1 "${estimate[@]}" --report .; says err "is a folder"
  run 1 estimate --model_name_or_path gone --max_steps 2; says err "gone"
  run 1 "${estimate[@]}" --dataset_name gone.jsonl --report plan.html; says err "gone.jsonl"
  run 2 "${estimate[@]}" --max_length -4; says err "max_length"
  run 2 "${estimate[@]}" --use_peft --optimizer_in_backward --gradient_accumulation_steps 2; says err "optimizer_in_backward"
  [ ! -e plan.html ] && [ ! -s out ] || die "something was written"
}
case_estimate_compares_option_sets() {
  run 0 "${estimate[@]}" --compare "optim=adamw_8bit gradient_checkpointing=false" --compare optim=no_such "{use_peft: true}" --report plan.html
  says out "optim: adamw_8bit, gradient_checkpointing:"; says out "  optim: no_such"; says out "refused: optim"; says out "  use_peft: true"
  ! LC_ALL=C grep -q '[^ -~]' out || die "not ASCII"
  [ "$(wc -L <out)" -le 80 ] || die "wider than 80 columns"
  says out "^forward"; says out "^backward"; says plan.html "use_peft: true"
  run 0 "${estimate[@]}" --compare optim=adamw_8bit; [ "$(grep -c adamw_8bit out)" -eq 1 ] || die "sets"
  run 0 "${estimate[@]}" --compare []; ! grep -q "option sets" out || die "sets"
  printf 'estimate.compare:\n- {optim: adamw_8bit}\n- use_peft=true max_length=64\n' >c.yaml
  run 0 "${estimate[@]}" --config c.yaml; says out "optim: adamw_8bit"; says out "use_peft: true, max_length: 64"
  run 2 "${estimate[@]}" --compare adamw_8bit; says err "'adamw_8bit' is not an option; give key=value"
}
case_a_memory_budget_is_kept_or_refused() {
  run 0 "${sft[@]}" --max_steps 1 --max_length 128 --memory_budget 64GiB
  rm -r model; run 2 "${sft[@]}" --max_steps 1 --max_length 128 --memory_budget 1MB; says err "memory_budget: 1 MB is too little"
}
case_a_budget_counts_the_start_of_the_process() {
  local budget
  run 2 "${sft[@]}" --max_steps 1 --max_length 64 --memory_budget 1MB
  budget=$(sed -n 's/.*, so \([0-9]*\)MB would do.*/\1/p' err)
  run 0 "${sft[@]}" --max_steps 1 --max_length 64 --memory_budget "${budget}MB"
  grep -q "measured peak" err || die "nothing measured"
  local most; most=$(sed -n 's/.*"peak_resident_bytes": \([0-9]*\).*/\1/p' out)
  [ "$most" -le $((budget * 1080000)) ] || die "$most bytes are more than 1.08 times $budget MB"
}
case_a_memory_limit_is_held_against_the_longest_row() {
  local long; long=$(printf 'word %.0s' $(seq 600))
  { for _ in $(seq 12); do echo '{"text": "a few words"}'; done; echo "{\"text\": \"$long\"}"; } >rows.jsonl
  local limited=("${sft[@]}" --dataset_name rows.jsonl --max_steps 2 --save_strategy no)
  run 1 "${limited[@]}" --runtime.host_memory_limit 3000000; says err "the longest row of this run has"
  [ ! -s out ] || die "a step was made"
  run 0 "${limited[@]}" --runtime.host_memory_limit 16000000; says err "may be too little"
  run 0 "${limited[@]}" --runtime.host_memory_limit 400MB; ! grep -q "too little" err || die "warned"
  # Without a length the rows say how long they are.
  run 0 "${limited[@]}" --max_length null --runtime.host_memory_limit 16MB; says err "may be too little"
}

profile=(profile --model_name_or_path "$model" --dataset_name "$rows")
case_profile_plots_in_eighty_columns() {
  run 0 "${profile[@]}"; says out "rows by tokens: total"; says out "group_by_length"; [ ! -s err ] || die "stderr"
  [ "$(LC_ALL=C.UTF-8 wc -L <out)" -le 80 ] || die "wider than 80 columns"
}
case_profile_writes_json_and_files() {
  printf 'per_device_train_batch_size: 4\nlearning_rate: 1.0e-3\nmax_seq_length: 48\n' >c.yaml
  run 0 "${profile[@]}" --config c.yaml --json --max_lengths 16 32 --svg p.svg --html p.html
  says out '"per_device_train_batch_size": 4'; says out '"max_length": 16'; says out '"max_length": 32'
  says out '"optimizer_steps"'; says p.svg "</svg>"
  says p.html "</html>"
}
case_profile_predicts_peaks() {
  run 0 "${profile[@]}" --max_lengths 16 32 64 --html p.html --svg p.svg
  [ "$(grep -c '^max_length .*; peak ' out)" -eq 3 ] || die "peaks"
  says p.html "predicted peak"; says p.svg "peak "
  # long enough for a step to take more than the start of the process
  local long; long=$(printf 'word %.0s' $(seq 6000)); for _ in $(seq 8); do echo "{\"text\": \"$long\"}"; done >long.jsonl
  run 0 "${profile[@]}" --dataset_name long.jsonl --max_lengths 2048 4096 8192 --json
  [ "$(sed -n 's/.*"peak_bytes": \([0-9]*\).*/\1/p' out | sort -n | uniq | wc -l)" -eq 3 ] || die "three peaks"
  run 0 "${profile[@]}" --max_lengths 16 --json --peaks false; ! grep -q peak out || die "not asked for"
}
case_profile_works_with_a_tokenizer_alone() {
  mkdir tokenizer; cp "$model"/tokenizer*.json tokenizer
  run 0 profile --model_name_or_path tokenizer --dataset_name "$rows" --html p.html
  says out "rows by tokens: total"; says out "no peak is predicted: "; says out "tokenizer"; says p.html "No peak is predicted"
  run 0 profile --model_name_or_path tokenizer --dataset_name "$rows" --json; says out '"no_peaks": "'
}
case_profile_refuses_what_is_wrong() {
  run 2 profile --dataset_name "$rows"; says err "--model_name_or_path is required"
  run 2 profile --model_name_or_path "$model"; says err "give dataset_name"
  run 1 profile --model_name_or_path "$model" --dataset_name gone.jsonl; says err "gone.jsonl"
  run 2 "${profile[@]}" --max_lenghts 5; says err "max_length"
  run 2 "${profile[@]}" --max_lengths 5 x; says err "'x'"
  run 1 "${profile[@]}" --svg gone/p.svg; says err "gone"
  printf '{"text": "a"}\n{"text": \n' >bad.jsonl
  run 1 profile --model_name_or_path "$model" --dataset_name bad.jsonl --svg p.svg; says err "bad.jsonl:2"
  [ ! -e p.svg ] || die "a picture of nothing"
  : >empty.jsonl; run 1 profile --model_name_or_path "$model" --dataset_name empty.jsonl; says err "holds no rows"
}
case_a_folder_that_cannot_be_written_is_an_error() {
  mkdir closed; chmod 555 closed
  local as=()
  if [ "$(id -u)" -eq 0 ]; then  # who may write everywhere
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chmod 755 .; cp -r "$model" m; cp "$rows" r.jsonl
    "${as[@]}" test -x "$trl" || { as=(); rmdir closed; ln -s /proc closed; }
    sft=(sft --model_name_or_path "$PWD/m" --dataset_name "$PWD/r.jsonl" --bf16 false)
  fi
  local code=0
  HOME=/nowhere "${as[@]}" "$trl" "${sft[@]}" --output_dir "$PWD/closed/out" --max_steps 1 >out 2>err || code=$?
  [ "$code" -eq 1 ] || die "exit code $code"
  says err "closed/out"; says err "cannot be written"
  [ "$(grep -c error err)" -eq 1 ] || die "one error"
  code=0
  HOME=/nowhere "${as[@]}" "$trl" estimate "${sft[@]:1}" --max_length 64 --max_steps 1 --report "$PWD/closed/plan.html" >out 2>err || code=$?
  [ "$code" -eq 1 ] || die "exit code $code"
  says err "closed"; says err "cannot be written"; [ ! -s out ] || die "printed"
}
case_a_bad_row_met_while_training_loses_no_step() {
  { for _ in $(seq 1100); do echo '{"text": "one two"}'; done; echo '{"text": 7}'; } >late.jsonl
  run 1 "${sft[@]}" --dataset_name late.jsonl --dataset_streaming --max_steps 300 --logging_steps 100 \
    --per_device_train_batch_size 20
  says err "late.jsonl:1101: column 'text' is a number"
  says err "--resume_from_checkpoint model/checkpoint-50"
  ls model/checkpoint-50/trl_state.json >/dev/null || die "no checkpoint"
}
case_rows_are_streamed() {
  run 0 "${sft[@]}" --max_steps 3; grep '"loss"' out | head -3 | sed 's/, "epoch.*//' >want
  rm -rf model; run 0 "${sft[@]}" --max_steps 3 --dataset_streaming; grep '"loss"' out | head -3 | sed 's/, "epoch.*//' >got
  cmp want got
  rm -r model; run 2 "${sft[@]}" --dataset_streaming; says err "max_steps"
}
case_prepared_rows_are_kept() {
  run 0 "${sft[@]}" --max_steps 1 --packing --max_length 64
  [ "$(ls "$HOME/.cache/trl" | wc -l)" -eq 1 ] || die "no prepared rows"
  rm -rf model; run 0 "${sft[@]}" --max_steps 1 --packing --max_length 64 --dataset_cache_limit 0 --dataset_cache_dir other
  [ ! -e other ] || die "other"
}
case_lists_may_be_written_as_in_files() {
  run 0 "${sft[@]}" --max_steps 1 --report_to '["csv", "html"]'; [ -e model/runs ] || ls model >&2
  [ -n "$(find model -name '*.csv')" ] && [ -n "$(find model -name '*.html')" ] || die "records"
  rm -rf model; run 0 sft --model_name_or_path "$model" --datasets "[{\"path\": \"$rows\"}]" --output_dir model --bf16 false --max_steps 1
}
case_profile_help() { run 0 profile --help; says out "--max_lengths"; says out "--svg"; says out "--dataset_columns"; run 0 profile --help-all; says out "--peaks"; }
case_options_lists_a_trainer() { run 0 options sft; says out "learning_rate = 2e-05"; says out "also: "; run 2 options sfft; }
case_env_reports_versions() { run 0 env; says out '"version"'; says out '"engine"'; }
# ask PORT PATH [BODY]: the answer of a request over bash's own sockets.
ask() {
  local method=GET
  [ $# -lt 3 ] || method=POST
  exec 3<>"/dev/tcp/127.0.0.1/$1"
  printf '%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' "$method" "$2" "$(printf %s "${3:-}" | wc -c)" "${3:-}" >&3
  cat <&3 >out
  exec 3>&-
}
case_vllm_serve_answers_and_ends_after_its_requests() {
  echo '{% for m in messages %}[{{ m.content }}]{% endfor %}' >own.jinja
  : >err  # it may not have begun when its words are looked for
  "$trl" vllm-serve --model "$model" --port 0 --served-model-name tiny --tensor-parallel-size 1 --chat-template own.jinja \
    --speculative-config '{"method": "ngram", "num_speculative_tokens": 3}' 2>err & local pid=$! port=
  for _ in $(seq 600); do
    port=$(sed -n 's@.*http://127.0.0.1:\([0-9]*\).*@\1@p' err); [ -z "$port" ] || break; sleep 0.1
  done
  [ -n "$port" ] || die "it does not listen"
  ask "$port" /v1/models; says out '"id":"tiny"'
  ask "$port" /v1/chat/completions '{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "return_prompt_text": true}'; says out '"prompt_text":"[Hi]'
  ask "$port" /v1/completions '{"prompt": "It opens", "max_tokens": 4, "temperature": 0, "ignore_eos": true}'; says out '"completion_tokens":4'
  run 0 generate --model_name_or_path "$model" --max_new_tokens 4 --ignore_eos --dtype auto --prompt "It opens" --json; mv out want
  ask "$port" /v1/completions '{"prompt": "It opens", "max_tokens": 4, "temperature": 0, "ignore_eos": true}'
  says out "$(sed 's/.*"completion":\("[^}]*"\).*/"text":\1/' want)"
  # As many log-probabilities as TRL's trainers ask for.
  ask "$port" /v1/completions '{"prompt": "It opens", "max_tokens": 1, "prompt_logprobs": 100}'; says out '"rank":100,'
  kill -TERM "$pid"; wait "$pid" || die "exit code $?"
}
case_vllm_serve_refuses_by_name() {
  local words=(vllm-serve --model "$model") server=$trl trl=refuse_soon
  # A server that starts after all would not end by itself.
  refuse_soon() { timeout 60 "$server" "$@"; }
  run 0 vllm-serve --help-all; says out "--max_logprobs INTEGER  [-1]"; says out "--dtype CHOICE  [auto]"
  run 0 generate --help-all; says out "is generate."
  run 2 vllm-serve; says err "--model is needed"
  run 2 "${words[@]}" --tensor-parallel-size 2; says err "tensor_parallel_size"; says err "one process"
  run 2 "${words[@]}" --ssl-keyfile key.pem; says err "no TLS"
  run 2 "${words[@]}" --no_such_flag 1; says err "no_such_flag"
  run 2 "${words[@]}" --gpu-memory-utilization 2; says err "gpu_memory_utilization"
  run 2 "${words[@]}" --port 0 --chat; says err "generate.chat"
  run 2 "${words[@]}" --port 0 --speculative-config '{"method": "eagle"}'; says err "generate.speculative_config"; says err "ngram"
  run 2 "${words[@]}" --port 0 --api-key ""; says err "api_key"
  # As from a variable that is not set: the next flag is not a key.
  run 2 "${words[@]}" --api-key --port 0; says err "--api-key needs a value"
  run 2 "${words[@]}" --port 0 --served-model-name --dtype auto; says err "--model_names needs a value"
  run 2 "${words[@]}" --port 0 --chat-template gone.jinja; says err "--chat_template"; says err "gone.jinja"; says err "file or its text"
  run 2 generate --model_name_or_path "$model" --chat_template gone.jinja --prompt x; says err "chat_template_path"
  run 2 "${words[@]}" --port 0 --dtype half; says err "dtype: 'float16' is refused"
  # An address of a class that no machine has; the values are those of TRL's and vLLM's commands.
  run 1 "${words[@]}" --enable-lora --log_level trace --dtype float --enforce_eager True --trust_remote_code False --host 240.0.0.1; says err "240.0.0.1:8000"
}

"case_$2"
