#!/usr/bin/env bash
# usage: scenario.sh PROJECT FOLDER LANGUAGE COMMAND...: runs a binding's scenario, whose text goes to FOLDER/LANGUAGE.txt,
# and compares that with scenario.txt but for numbers; scenario.sh PROJECT FOLDER compare: all languages print the same.
set -euo pipefail
project=$1 folder=$2 language=$3
shift 3
if [ "$language" = compare ]; then
  shopt -s nullglob
  texts=("$folder"/*.txt)
  [ ${#texts[@]} -gt 0 ] || { echo "no language has run the scenario"; exit 77; }
  for text in "${texts[@]}"; do diff "${texts[0]}" "$text" || { echo "$text is another text"; exit 1; }; done
  echo "the same: $(basename -s .txt "${texts[@]}" | tr '\n' ' ')"
  exit
fi
mkdir -p "$folder"
rm -rf "${folder:?}/$language" "$folder/$language.txt" "$folder/$language.loader"
loader=$folder/$language.loader  # what the dynamic linker says of each process
mkdir "$loader"
LD_DEBUG=files LD_DEBUG_OUTPUT=$loader/process "$@" "$project/bindings/scenario.json" "$project/tests/golden/models/qwen2" \
  "$folder/$language" > "$folder/$language.said" || { code=$?; cat "$folder/$language.said"; exit $code; }
sed -E 's/^version .*/version VERSION/; s/[0-9]+\.[0-9]{9}$/NUMBER/; s/^token [0-9]+$/token ID/; s/^\{"text":.*\}$/COMPLETION/' \
  "$folder/$language.said" | diff "$project/tests/bindings/scenario.txt" - || { cat "$folder/$language.said"; exit 1; }
# A run that was interrupted, stopped, saved and resumed goes on as the one that was not.
[ "$(grep -c '^step 6 of 6' "$folder/$language.said")" = 2 ] && [ "$(grep '^step 6 of 6' "$folder/$language.said" | sort -u | wc -l)" = 1 ] ||
  { echo "the resumed run is another one"; cat "$folder/$language.said"; exit 1; }
# A program that does not serve does not load the server.
grep -qr 'file=[^ ]*libtrl\.so' "$loader" || { echo "the dynamic linker says nothing of libtrl.so"; exit 1; }
if grep -r 'file=[^ ]*libtrl_serve\.so' "$loader"; then echo "it has loaded libtrl_serve.so"; exit 1; fi
rm -r "$loader"
mv "$folder/$language.said" "$folder/$language.txt"
