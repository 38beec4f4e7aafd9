#!/usr/bin/env bash
# usage: serve_scenario.sh PROJECT FOLDER LANGUAGE COMMAND...: runs a binding's scenario of a server, whose text goes to
# FOLDER/LANGUAGE.txt, and compares that with serve_scenario.txt but for the model's texts. scenario.sh compares languages.
set -euo pipefail
project=$1 folder=$2 language=$3
shift 3
mkdir -p "$folder"
rm -f "$folder/$language.txt"
said=$folder/$language.said
"$@" "$project/bindings/serve_scenario.json" "$project/tests/golden/models/qwen2" \
  "$project/tests/golden/trajectories/sft_lora/adapter_final" > "$said" || { code=$?; cat "$said"; exit $code; }
sed -E 's/^(completion 200) .+/\1 TEXT/' "$said" | diff "$project/tests/bindings/serve_scenario.txt" - || { cat "$said"; exit 1; }
# The adapter writes another text, and after it and after the sleep the model writes its own again.
mapfile -t texts < <(grep '^completion 200' "$said")
[ "${texts[0]}" != "${texts[1]}" ] && [ "${texts[0]}" = "${texts[2]}" ] || { printf '%s\n' "${texts[@]}"; exit 1; }
mv "$said" "$folder/$language.txt"
