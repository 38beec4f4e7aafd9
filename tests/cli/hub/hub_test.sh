#!/usr/bin/env bash
# usage: hub_test.sh TRL SERVER CASE: names of the hub, against a hub on this machine (server.cc).
# Files in root/faults make it fail once for each of their lines: 429 (seconds to wait), 503, cut-NAME (bytes until the
# connection is cut), wrong-NAME (a bit of the file is changed).
set -euo pipefail
trl=$1
server=$2
project=$(cd "$(dirname "$0")/../../.." && pwd)
data=$project/tests/golden
dir=$(mktemp -d)
cd "$dir"
unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE \
  XDG_CACHE_HOME TRL_HUB HF_HUB_DISABLE_IMPLICIT_TOKEN http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
export HOME=$dir/home HF_HOME=$dir/hf

mkdir -p home root/faults root/models/org root/datasets/org
mkdir -p root/models/org/tiny/main root/models/org/tiny/v2 root/datasets/org/rows/main/data
cp "$data"/models/qwen2/* root/models/org/tiny/main/
printf 'never to be taken' >root/models/org/tiny/main/pytorch_model.bin
printf '{}' >root/models/org/tiny/main/moved.json
cp root/models/org/tiny/main/* root/models/org/tiny/v2/
printf '{"v": 2}' >root/models/org/tiny/v2/moved.json
head -n 8 "$data/data/datasets/train_lm.jsonl" >root/datasets/org/rows/main/data/train.jsonl
tail -n 4 "$data/data/datasets/train_lm.jsonl" >root/datasets/org/rows/main/data/test.jsonl
touch log

"$server" "$dir/root" "$dir/ports" "$dir/log" &
server_pid=$!
trap 'kill $server_pid 2>/dev/null || true; wait $server_pid 2>/dev/null || true; rm -rf "$dir"' EXIT
for _ in $(seq 100); do [ -s ports ] && break; sleep 0.1; done
read -r port cdn silent <ports
export HF_ENDPOINT=http://127.0.0.1:$port
cache=$HF_HOME/hub
tiny=$cache/models--org--tiny

die() { echo "FAILED: $*" >&2; for f in out err log; do [ ! -s $f ] || sed "s/^/$f: /" $f >&2; done; exit 1; }
# run EXPECTED_CODE ARGUMENTS...: output in out and err
run() {
  local want=$1 code=0
  shift
  "$trl" "$@" >out 2>err || code=$?
  [ "$code" -eq "$want" ] || die "trl $*: exit code $code, expected $want"
}
says() { grep -qF -- "$2" "$1" || die "$1 lacks: $2"; }
lacks() { ! grep -qF -- "$2" "$1" || die "$1 has: $2"; }
requests() { wc -l <log; }
sft=(sft --output_dir model --bf16 false --max_steps 1 --per_device_train_batch_size 2 --logging_steps 1
     --save_strategy no)
same() { cmp "$1" "$2" || die "$1 and $2 differ"; }

case_download_lays_the_cache_out_as_huggingface_hub() {
  run 0 download org/tiny
  local at commit
  at=$(cat out) commit=$(cat "$tiny/refs/main")
  [ "$at" = "$tiny/snapshots/$commit" ] || die "printed: $at"
  [ ${#commit} -eq 40 ] || die "refs/main: $commit"
  same "$at/model.safetensors" root/models/org/tiny/main/model.safetensors
  [ "$(readlink "$at/model.safetensors")" = "../../blobs/$(sha256sum <root/models/org/tiny/main/model.safetensors | cut -d' ' -f1)" ] || die "link"
  [ "$(readlink "$at/config.json")" = "../../blobs/$(git hash-object root/models/org/tiny/main/config.json)" ] || die "link of a small file"
  [ -f "$cache/CACHEDIR.TAG" ] || die "no tag"
  [ -d "$cache/.locks/models--org--tiny" ] || die "no locks"
  [ ! -e "$at/pytorch_model.bin" ] || die "a pickle was taken"
  [ -f "$at/moved.json" ] || die "a redirect on the hub was not followed"
  says "$tiny/trees/$commit.json" '"lfs_sha256"'
  local before; before=$(requests)
  run 0 download org/tiny; [ $(($(requests) - before)) -eq 1 ] || die "asked again for what is there"
}
case_a_token_stays_with_the_hub() {
  printf secret >root/models/org/tiny/private
  HF_TOKEN=secret run 0 download org/tiny
  grep -q '^hub .*authorization=Bearer secret' log || die "the hub got no token"
  grep -q '^cdn GET .*authorization=$' log || die "nothing came from the other host"
  ! grep -q '^cdn .*authorization=.' log || die "the other host got the token"
  lacks err secret
}
case_a_token_is_read_from_its_file() {
  printf secret >root/models/org/tiny/private
  mkdir -p hf; printf 'secret\n' >hf/token
  run 0 download org/tiny
  rm -rf hf; printf 'secret\n' >token
  HF_TOKEN_PATH=$dir/token run 0 download org/tiny
}
case_a_training_run_takes_names() {
  run 0 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/rows --eval_strategy steps --eval_steps 1
  says out '"loss"'; says out '"eval_loss"'
  [ -s model/model.safetensors ] || die "nothing was saved"
  local before; before=$(requests)
  run 0 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/rows
  [ "$(requests)" -eq "$before" ] || die "the hub was asked for what is there"
  run 0 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/rows --hub off
}
case_a_missing_path_is_told_before_the_hub() {
  run 1 generate --model_name_or_path out/final --prompt x
  says err "model_name_or_path: there is no file or directory out/final; on the hub: out/final: the model is missing or private (401)"
  HF_ENDPOINT=http://127.0.0.1:1 run 1 sft --model_name_or_path "$data/models/qwen2" --dataset_name out/rows --output_dir m
  says err "dataset_name: there is no file or directory out/rows; on the hub: "; [ ! -e m ] || die "m"
}
# ends_soon ARGUMENTS...: a hub that is not there is told within 5 seconds, with a line before
ends_soon() {
  local begin; begin=$(date +%s%N)
  run 1 "$@"
  [ $((($(date +%s%N) - begin) / 1000000)) -lt 5000 ] || die "it took $((($(date +%s%N) - begin) / 1000000)) ms"
  says err "waiting for $HF_ENDPOINT"; says err "cannot be reached"
}
case_an_unreachable_hub_is_told_soon() {
  local real=$HF_ENDPOINT
  HF_ENDPOINT=http://127.0.0.1:1 ends_soon download org/tiny
  HF_ENDPOINT=http://127.0.0.1:$silent ends_soon tokenize --model_name_or_path org/tiny --text hi
  says err "model_name_or_path: there is no file or directory org/tiny; waiting for "
  HF_ENDPOINT=$real run 0 download org/tiny  # what is in the cache needs no hub
  HF_ENDPOINT=http://127.0.0.1:1 run 0 tokenize --model_name_or_path org/tiny --text hi
}
case_addresses_are_names() {
  run 0 download "$HF_ENDPOINT/org/tiny"; [ "$(cat out)" = "$tiny/snapshots/$(cat "$tiny/refs/main")" ] || die "$(cat out)"
  run 0 download "https://huggingface.co/org/tiny/tree/v2"; says "$(cat out)/moved.json" '"v": 2'
  run 0 download "$HF_ENDPOINT/datasets/org/rows?x=y"; [ -f "$(cat out)/data/train.jsonl" ] || die "rows"
  run 0 tokenize --model_name_or_path "https://huggingface.co/org/tiny/tree/v2" --text hi
  run 0 "${sft[@]}" --model_name_or_path org/tiny --dataset_name "https://huggingface.co/datasets/org/rows"
  mkdir -p root/models/org/gguf/main; printf a >root/models/org/gguf/main/a.gguf; printf b >root/models/org/gguf/main/b.gguf
  run 0 download "hf.co/org/gguf/blob/main/b.gguf"; same "$(cat out)" root/models/org/gguf/main/b.gguf
  run 1 download "$HF_ENDPOINT/org/tiny/blob/main/config.json"; says err "only a GGUF file is taken by itself"
  run 2 download "https://huggingface.co/spaces/org/tiny"; says err "is not a name of the hub"
  run 2 download "https://example.com/org/tiny"; says err "is not a name of the hub"
  run 2 download "$HF_ENDPOINT/org/tiny/tree/v2" --revision main; says err "the address says v2"
  run 2 download "$HF_ENDPOINT/datasets/org/rows" --repo_type model; says err "the address says dataset"
}
case_download_names_its_own_flags() {
  run 2 download org/tiny --revison v2; says err "--revison: not an option of trl download; did you mean --revision?"
  run 2 download org/tiny --model_revision v2; says err "--model_revision: not an option of trl download"
  run 2 download org/tiny --revision; says err "--revision needs a value"
  run 2 download org/tiny more; says err "unexpected argument 'more'"
  run 1 download org/gone; says err "that of a dataset (--repo_type dataset)"
  mkdir -p root/models/org/old/main; printf x >root/models/org/old/main/pytorch_model.bin
  run 1 download org/old; says err "(--revision refs/pr/1)"; lacks err "model_revision"
  run 1 tokenize --model_name_or_path org/gone --text x; lacks err "repo_type"
  run 0 download org/tiny -q; [ ! -s err ] || die "not quiet"
  run 0 tokenize --model_name_or_path org/tiny --text hi -q; [ ! -s err ] || die "not quiet"
}
case_a_local_path_comes_first() {
  mkdir -p org; cp -r root/models/org/tiny/main org/tiny
  run 0 tokenize --model_name_or_path org/tiny --text hi
  [ "$(requests)" -eq 0 ] || die "the hub was asked"
}
case_only_the_tokenizer_is_taken_for_tokens() {
  run 0 tokenize --model_name_or_path org/tiny --text hi
  lacks log "model.safetensors"
}
case_off_touches_no_network() {
  for way in "--hub off" TRL_HUB=off HF_HUB_OFFLINE=1; do
    case $way in
      --*) run 1 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/rows --hub off ;;
      *) env_run "$way" ;;
    esac
    says err "model_name_or_path: there is no file or directory org/tiny; on the hub: org/tiny: it is not in the Hugging Face cache"; says err "$way"
  done
  run 1 download org/tiny --hub off
  [ "$(requests)" -eq 0 ] || die "the hub was asked"
}
env_run() { export "${1?}"; run 1 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/rows; unset "${1%%=*}"; }
case_revisions() {
  run 0 download org/tiny --revision v2
  says "$(cat out)/moved.json" '"v": 2'
  run 0 download org/tiny --revision "$(cat "$tiny/refs/v2")"
  [ ! -e "$tiny/refs/main" ] || die "main was asked for"
  run 0 tokenize --model_name_or_path org/tiny --text hi
  run 0 "${sft[@]}" --model_name_or_path org/tiny --model_revision v2 --dataset_name org/rows
  lacks err "no revisions"
  run 0 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/rows --model_revision null --dataset_revision null
  lacks err "no revisions"
  run 1 download org/tiny --revision v3; says err "there is no revision 'v3'"
}
case_missing_or_private() {
  run 1 download org/gone; says err "org/gone: the model is missing or private (401)"
  printf secret >root/models/org/tiny/private
  run 1 download org/tiny; says err "missing or private (401)"; says err "HF_TOKEN"
  HF_TOKEN=other run 1 download org/tiny; says err "missing or private (404)"; says err "the token in the variable HF_TOKEN"; lacks err "other"
  HF_TOKEN=unknown run 1 download org/tiny; says err "does not know the token"
}
case_gated() {
  printf secret >root/models/org/tiny/gated
  HF_TOKEN=other run 1 download org/tiny; says err "(403)"; says err "its conditions are accepted at $HF_ENDPOINT/org/tiny"
  HF_TOKEN=secret run 0 download org/tiny
}
case_the_hub_asks_to_wait() {
  printf '1\n1\n' >root/faults/429
  run 0 download org/tiny; says err "the hub asks to wait 1 s (429)"
  rm -rf hf; printf '100000\n' >root/faults/429
  run 1 download org/tiny; says err "the hub refuses further requests (429)"; says err "100000 s"
}
case_the_hub_is_down_for_a_moment() { printf '\n' >root/faults/503; run 0 download org/tiny; }
case_a_cut_is_resumed() {
  printf '20000\n' >root/faults/cut-model.safetensors
  run 0 download org/tiny
  grep -q '^cdn GET .*model.safetensors .*range=bytes=20000-' log || die "no range"
  same "$(cat out)/model.safetensors" root/models/org/tiny/main/model.safetensors
}
case_an_earlier_download_is_resumed() {
  local sum; sum=$(sha256sum <root/models/org/tiny/main/model.safetensors | cut -d' ' -f1)
  mkdir -p "$tiny/blobs"; head -c 30000 root/models/org/tiny/main/model.safetensors >"$tiny/blobs/$sum.incomplete"
  run 0 download org/tiny
  grep -q '^cdn GET .*model.safetensors .*range=bytes=30000-' log || die "no range"
  same "$(cat out)/model.safetensors" root/models/org/tiny/main/model.safetensors
}
case_a_wrong_earlier_part_is_found() {
  local sum; sum=$(sha256sum <root/models/org/tiny/main/model.safetensors | cut -d' ' -f1)
  mkdir -p "$tiny/blobs"; head -c 30000 /dev/zero >"$tiny/blobs/$sum.incomplete"
  run 0 download org/tiny; says err "its SHA-256 is"
  same "$(cat out)/model.safetensors" root/models/org/tiny/main/model.safetensors
}
case_a_wrong_hash_is_refused() {
  printf '\n\n' >root/faults/wrong-model.safetensors
  run 1 download org/tiny; says err "model.safetensors: its SHA-256 is"; says err "nothing of it was kept"
  ! ls "$tiny"/snapshots/*/model.safetensors 2>/dev/null || die "it was kept"
  rm -rf hf; printf '\n\n' >root/faults/wrong-config.json
  run 1 download org/tiny; says err "config.json: its git blob SHA-1 is"
  run 0 download org/tiny
}
case_a_repository_of_pickles_is_refused() {
  mkdir -p root/models/org/old/main; printf x >root/models/org/old/main/pytorch_model.bin; printf '{}' >root/models/org/old/main/config.json
  run 1 download org/old; says err "its weights are pickles (pytorch_model.bin)"
  lacks log "resolve"
}
case_several_gguf_files_are_named() {
  mkdir -p root/models/org/gguf/main; printf a >root/models/org/gguf/main/a.gguf; printf b >root/models/org/gguf/main/b.gguf
  run 1 download org/gguf; says err "it has 2 GGUF files; name one of them, such as org/gguf/a.gguf"
  run 0 download org/gguf/b.gguf; same "$(cat out)" root/models/org/gguf/main/b.gguf
  ! ls "$cache"/models--org--gguf/snapshots/*/a.gguf 2>/dev/null || die "the other was taken"
}
case_links_into_the_shared_store_are_read() {
  run 0 download org/tiny
  local at sum; at=$(cat out); sum=$(sha256sum <root/models/org/tiny/main/model.safetensors | cut -d' ' -f1)
  mkdir -p "$cache/blobs/ab"; mv "$tiny/blobs/$sum" "$cache/blobs/ab/abcd"; ln -s ../../blobs/ab/abcd "$tiny/blobs/$sum"
  rm "$at/model.safetensors"
  run 0 download org/tiny; same "$at/model.safetensors" root/models/org/tiny/main/model.safetensors
  [ -L "$tiny/blobs/$sum" ] || die "the link was replaced"
  [ "$(grep -c '^cdn GET' log)" -eq 1 ] || die "it was downloaded again"
  chmod a-w "$cache/blobs/ab/abcd"; : >"$dir/empty"; mv "$cache/blobs/ab/abcd" "$dir/away"
  run 0 download org/tiny; [ ! -e "$cache/blobs/ab/abcd" ] || die "the store was written"
  [ -f "$tiny/blobs/$sum" ] && [ ! -L "$tiny/blobs/$sum" ] || die "a dangling link was not replaced"
}
case_a_lock_is_waited_for() {
  local sum; sum=$(sha256sum <root/models/org/tiny/main/model.safetensors | cut -d' ' -f1)
  mkdir -p "$cache/.locks/models--org--tiny"
  flock "$cache/.locks/models--org--tiny/$sum.lock" sleep 2 &
  sleep 0.3
  local begin; begin=$(date +%s%N)
  run 0 download org/tiny
  [ $((($(date +%s%N) - begin) / 1000000)) -ge 1000 ] || die "it did not wait"
  wait %2 || true
}
case_an_unfinished_listing_is_no_commit() {
  HF_ENDPOINT=http://127.0.0.1:1 run 1 download org/tiny; says err "cannot be reached"
  HF_ENDPOINT=ftp://127.0.0.1 run 1 download org/tiny; says err "HF_ENDPOINT"
  run 2 download; says err "a name is needed"
  run 2 download 'org/../x'; says err "is not a name of the hub"
  run 2 download org/tiny --repo_type space; says err "model or dataset"
}
case_variables_place_the_cache() {
  HF_HUB_CACHE=$dir/elsewhere run 0 download org/tiny; [ -d elsewhere/models--org--tiny ] || die "HF_HUB_CACHE"
  unset HF_HOME
  XDG_CACHE_HOME=$dir/xdg run 0 download org/tiny; [ -d xdg/huggingface/hub/models--org--tiny ] || die "XDG_CACHE_HOME"
  run 0 download org/tiny; [ -d home/.cache/huggingface/hub/models--org--tiny ] || die "HOME"
}
case_datasets_by_configuration() {
  mkdir -p root/datasets/org/cards/main/{a,b}
  printf -- '---\nconfigs:\n- config_name: first\n  data_files:\n  - split: train\n    path: a/one-*\n- config_name: second\n  default: true\n  data_files:\n  - split: train\n    path: b/two.jsonl\n---\ntext\n' >root/datasets/org/cards/main/README.md
  head -n 2 "$data/data/datasets/train_lm.jsonl" >root/datasets/org/cards/main/a/one-0.jsonl
  head -n 3 "$data/data/datasets/train_lm.jsonl" >root/datasets/org/cards/main/b/two.jsonl
  run 0 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/cards
  lacks log "a/one-0.jsonl"; says log "b/two.jsonl"
  run 0 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/cards --dataset_config first
  says log "a/one-0.jsonl"
  run 1 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/cards --dataset_config third
  says err "it has no configuration 'third'; there are: first, second"
}
case_parquet_is_refused_before_it_is_downloaded() {
  "$trl" env | grep -q '"parquet"' && return 0  # this build reads it
  mkdir -p root/datasets/org/parquet/main/data; printf PAR1 >root/datasets/org/parquet/main/data/train-00000-of-00001.parquet
  run 1 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/parquet
  says err "dataset_name: org/parquet: its rows are Parquet files"; says err "bash examples/setup.sh --parquet"
  lacks log "/org/parquet/resolve"
  run 0 download org/parquet --repo_type dataset
}
case_the_model_of_an_adapter_may_be_a_name() {
  run 0 "${sft[@]}" --model_name_or_path org/tiny --dataset_name org/rows --use_peft
  grep -q '"base_model_name_or_path": "org/tiny"' model/adapter_config.json || die "$(grep base_model model/adapter_config.json)"
  run 0 generate --model_name_or_path model --prompt hi --max_new_tokens 2; says err "model_name_or_path: org/tiny is"
  run 0 convert --model_name_or_path model --output adapter.gguf
  run 0 convert --model_name_or_path model --save.kind merged --output merged; [ -s merged/model.safetensors ] || die "nothing was merged"
}
case_models_of_rewards_and_values_may_be_names() {
  mkdir -p root/models/org/scorer/main
  run 0 reward --output_dir scorer --bf16 false --max_steps 1 --per_device_train_batch_size 2 --save_strategy no \
    --model_name_or_path org/tiny --dataset_name "$data/data/datasets/train_pref.jsonl"
  cp scorer/*.json scorer/*.jinja scorer/*.safetensors root/models/org/scorer/main/
  rm -r scorer; printf '{"prompt":"Tell me of the sea:"}\n{"prompt":"Name a planet:"}\n' >p.jsonl
  local writes=(--model_name_or_path org/tiny --dataset_name p.jsonl --bf16 false --max_steps 1 --logging_steps 1
                --per_device_train_batch_size 2 --save_strategy no)
  run 0 grpo "${writes[@]}" --output_dir grpo --num_generations 2 --max_completion_length 4 --reward_model_name_or_path org/scorer
  says out '"rewards/scorer/mean"'; says err "reward_model_name_or_path: org/scorer is $cache/models--org--scorer"
  run 0 ppo "${writes[@]}" --output_dir ppo --response_length 4 --reward_model_path org/scorer --value_model_name_or_path org/scorer
  says err "value_model_name_or_path: org/scorer is "
}
case_names_in_mixtures() {
  printf 'datasets:\n- path: org/rows\n  split: train\n' >c.yaml
  run 0 "${sft[@]}" --model_name_or_path org/tiny --config c.yaml; says out '"loss"'
}

"case_$3"
