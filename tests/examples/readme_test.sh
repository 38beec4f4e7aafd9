#!/usr/bin/env bash
# usage: readme_test.sh PROJECT BUILD TRL commands|programs. Runs every command in the code blocks of the READMEs, in
# the order in which they stand, each page in one shell and one folder that has what it names. programs: the pages of
# examples/c and of the other languages, against an install; commands: all others. readme_exceptions.txt has those that
# cannot run here, and why.
set -euo pipefail
project=$1 build=$2 trl=$3 part=$4
exceptions=$project/tests/examples/readme_exceptions.txt
model=$project/tests/golden/models/qwen2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
die() { echo "FAILED: $*" >&2; exit 1; }

# Lines of fenced sh blocks and of indented blocks, those that end in \ joined, without comments. Lines of YAML are none.
commands_of() {
  awk '/^```/ { fence = fence ? "" : $0; next }
       line != "" || fence == "```sh" || (!fence && /^    [^ ]/) {
         line = line $0
         if (sub(/\\$/, "", line)) next
         sub(/   *#.*$/, "", line); sub(/^ +/, "", line); sub(/ +$/, "", line)
         if (line !~ /^[a-z_]+: /) print line
         line = "" }' "$1"
}

# what_of COMMAND: run, or the way and the reason of an exception
what_of() {
  local way start reason
  while IFS='|' read -r way start reason; do
    case $way in '#'*) continue ;; esac
    case $1 in "$start"*) echo "$way|$reason"; echo "$start" >>"$dir/used"; return ;; esac
  done <"$exceptions"
  echo run
}

# A file of the project that a command names by its path.
named_files() { grep -oE '(bench|tests|examples)/[A-Za-z0-9_./-]+\.[a-z]+' <<<"$1" || true; }

check_exception() {  # WAY COMMAND
  local file
  bash -n <<<"$2" || die "bash cannot read: $2"
  for file in $(named_files "$2"); do [ -e "$project/$file" ] || die "$file is not there: $2"; done
  case $1 in
    script) bash -n "$project/$(awk '{ print $2 }' <<<"$2")" ;;
    read) case $2 in *_bench*) [ -n "$(find "$project/bench" -name "${2%% *}.cc")" ] || die "there is no ${2%% *}" ;; esac ;;
    offline)
      local code=0
      (eval "$2") >"$dir/said" 2>&1 </dev/null || code=$?
      [ "$code" -eq 1 ] && grep -q "the hub is not asked" "$dir/said" || die "$2: $(cat "$dir/said")" ;;
  esac
}

# run_recipe COMMAND: one step of it, on short completions of the rows at hand.
run_recipe() {
  local command="$1 --max_steps 1 --max_completion_length 4 --output_dir once"
  eval "$command" >"$dir/said" 2>&1 </dev/null || die "$command: $(tail -n 20 "$dir/said")"
  grep -q '"train_loss"' "$dir/said" && [ -n "$(ls once/*.safetensors)" ] || die "$command: $(cat "$dir/said")"
  rm -r once
  echo "$1" >>"$dir/recipes"
}

# check_said PAGE:COMMAND: that a program which is there in several languages has printed its part.
check_said() {
  local want
  case $1 in
    */generate/README.md:*" $model generate."*) want='[(]cancelled[)].*And since when[?] -> .*[(](length|stop)[)]' ;;
    */grpo/README.md:*max_steps=2) want='step   1: mean reward 0[.][2-5].*step   2: mean reward [01][.].*saved in out' ;;
    *) return ;;
  esac
  LC_ALL=C grep -qzE "$want" "$dir/said" || die "$1 printed: $(cat "$dir/said")"
}

# run_page FILE, in the folder at hand. In one shell, so that what a command exports or changes holds for the next.
run_page() {
  local command what file=$1
  while read -r command <&3; do
    what=$(what_of "$command")
    echo "${file#"$project"/}: $command  (${what})"
    if [ "$what" != run ]; then
      check_exception "${what%%|*}" "$command"
      continue
    fi
    command=${command//DIR|FILE.gguf/$model}
    command=${command//MODEL/$model}; command=${command//SOLUTIONS/solutions.jsonl}; command=${command//OUTPUT/out}
    case $command in  # a minute otherwise; examples.NAME shows that they learn
      ./calculator*) command+=" sft.max_steps=20 max_steps=1" ;;
      *examples/recipes/*\ --dry_run) command="${command% --dry_run} --gradient_accumulation_steps 1 --dry_run" ;;  # few rows
    esac
    case $file:$command in */grpo/README.md:*" $model out"*) command+=" max_steps=2" ;; esac
    eval "$command" >"$dir/said" 2>&1 </dev/null || die "$command: $(tail -n 20 "$dir/said")"
    check_said "$file:$command"
    case $command in *examples/recipes/*\ --dry_run) run_recipe "${command% --dry_run}" ;; esac
  done 3< <(commands_of "$file")
}

export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export HOME=$dir TRL_HUB=off PATH=$dir/bin:$PATH GOMP_SPINCOUNT=100
mkdir "$dir/bin" && ln -s "$trl" "$dir/bin/trl"
rows=$project/tests/golden/data/datasets
recipe() {
  cat >recipe.yaml <<Y
model_name_or_path: $model
dataset_name: rows.jsonl
output_dir: tuned
save_strategy: no
bf16: false
max_steps: 2
Y
  head -n 16 "$rows/train_lm.jsonl" >rows.jsonl
}

# A folder that has what the commands of a page name.
furnish() {
  recipe
  head -n 8 "$rows/train_pref.jsonl" >pairs.jsonl
  head -n 16 "$rows/train_chat.jsonl" >chats.jsonl
  printf '{"prompt": "%s", "solution": "\\\\boxed{%s}"}\n' '1 + 1 =' 2 '2 + 3 =' 5 '4 + 4 =' 8 '1 + 6 =' 7 \
    '3 + 3 =' 6 '2 + 7 =' 9 '1 + 2 =' 3 '0 + 4 =' 4 >problems.jsonl
  mkdir rows && cp rows.jsonl rows/train.jsonl && head -n 4 rows.jsonl >rows/test.jsonl
  ln -s "$project/examples" examples
  ln -s "$model" SmolLM2-135M-Instruct; ln -s "$model" small; ln -s "$model" big
  ln -s "$dir/scorer" scorer
  ln -s "$dir/model.gguf" SmolLM2-135M-Instruct.Q4_1.gguf
}

commands() {
  local page
  trl convert --model_name_or_path "$model" --output "$dir/model.gguf" --type f32
  trl reward --model_name_or_path "$model" --dataset_name "$rows/train_pref.jsonl" --max_steps 1 --output_dir "$dir/scorer"
  while read -r page; do
    case $page in */examples/c/* | */examples/cpp/* | */examples/go/* | */examples/java/* | */examples/node/* | */examples/python/* | */examples/rust/*) continue ;; esac
    [ -n "$(commands_of "$page")" ] || continue
    mkdir "$dir/here"
    (cd "$dir/here"; furnish; run_page "$page")
    rm -r "$dir/here"
  done < <(pages)
  local file
  for file in "$project"/examples/recipes/*; do grep -q "/${file##*/} " "$dir/recipes" || die "no page runs $file"; done
  # Commands in running text: the command is one that there is.
  while read -r command; do trl help "$command" >/dev/null || die "trl $command is in the text"; done < <(
    pages | xargs grep -ohE '`trl [a-z][a-z-]*' | awk '{ print $2 }' | sort -u)
  if comm -23 <(grep -v '^#' "$exceptions" | cut -d'|' -f2 | sort -u) <(sort -u "$dir/used") | grep .; then
    die "exceptions of no command"
  fi
}

pages() { find "$project" \( -name README.md -o -name CONTRIBUTING.md \) -not -path '*/build*' -not -path '*/.git/*' -not -path "$project/tests/golden/?*/*" | sort; }

serves() { [ -e "$build/lib/libtrl_serve.so" ] || { echo "no libtrl_serve.so: $1 is left out"; return 1; }; }

# An install like that of the first page, which the others are about too.
programs() {
  local example
  cp -r "$project/examples/c" "$dir/c"
  cd "$dir/c/sft"
  ln -s "$build" build
  for example in sft attention_plugin calculator control dpo estimate generate grpo learn_while_serving qlora resume serve; do
    case $example in calculator|dpo|grpo)
      pkg-config --exists json-c || { echo "no json-c: examples/c/$example is left out"; continue; } ;;
    serve) serves examples/c/serve || continue ;;  # after qlora, whose adapter it takes
    esac
    cd "$dir/c/$example"
    [ "$example" != attention_plugin ] || recipe
    run_page "$project/examples/c/$example/README.md"
  done
  [ "$(find "$project/examples/c" -name README.md | wc -l)" -eq 12 ] || die "a page under examples/c is not run"
  local language
  for language in cpp go java node python rust; do "programs_in_$language"; done
}

# programs_in FOLDER LANGUAGE: the pages of a language, in FOLDER, which looks like the project.
programs_in() {
  local folder=$1 language=$2 example
  mkdir -p "$folder/examples"
  cp -r "$project/examples/$language" "$folder/examples"
  [ -e "$folder/bindings" ] || ln -s "$project/bindings" "$folder/bindings"
  for example in "$folder/examples/$language"/*/; do
    case $example in */serve/) serves "examples/$language/serve" || continue ;; esac
    cd "$example"
    ln -s "$build" build
    run_page "$project/examples/$language/$(basename "$example")/README.md"
  done
}

programs_in_cpp() { programs_in "$dir/tree" cpp; }

programs_in_go() {
  go version >/dev/null 2>&1 || { echo "no Go: examples/go is left out"; return; }
  (export GOCACHE=${GOCACHE:-$build/tests/bindings/go/cache} GOPROXY=off GOTOOLCHAIN=local; programs_in "$dir/tree" go)
}

programs_in_java() {
  local said
  said=$(bash "$project/bindings/java/build.sh" "$dir/java") || { echo "$said: examples/java is left out"; return; }
  (export JNA_JAR=${JNA_JAR:-/usr/share/java/jna.jar}; programs_in "$dir/tree" java)
}

programs_in_node() {
  local koffi
  koffi=$(bash "$project/tests/bindings/node/run.sh" "$project" node "$project/tests/bindings/node/koffi.cjs" "$project") ||
    { echo "$koffi: examples/node is left out"; return; }
  mkdir -p "$dir/tree/examples/node_modules"
  ln -s "$project/bindings/node" "$dir/tree/examples/node_modules/libtrl"
  (export TRL_NODE_MODULES=$(dirname "$koffi"); programs_in "$dir/tree" node)
}

programs_in_python() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "no Python 3.11: examples/python is left out"; return; }
  (export PYTHONPATH=$project/bindings/python PYTHONDONTWRITEBYTECODE=1; programs_in "$dir/tree" python)
}

programs_in_rust() {
  cargo --version >/dev/null 2>&1 || { echo "no cargo: examples/rust is left out"; return; }
  (export CARGO_TARGET_DIR=$dir/target; programs_in "$dir/tree" rust)  # the crates are built once
}

"$part"
