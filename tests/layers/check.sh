#!/usr/bin/env bash
# usage: check.sh PROJECT. A room of src/ may include itself and rooms with a smaller number in src/README.md's table, a
# torch-free room only torch-free ones; cli/ only trl.h, config/online/reward_numbers.h, and base/text/message_text.h,
# base/text/nearest.h, config/method.h and reward/command_entry.h, which it compiles for itself; serve/ only the C headers,
# base/, text/response/ and capi/serve_table.h, and only serve/http/ includes Boost. Prints each offending edge. Also: banned
# symbols and file sizes.
set -euo pipefail
cd "$1"

table=$(awk -F'|' '/^\| *[0-9]+ *\|/ {gsub(/ /, "", $2); gsub(/ /, "", $3); gsub(/ /, "", $4); print $3, $2, $4}' src/README.md)
[ -n "$table" ] || { echo "src/README.md: no table of rooms"; exit 1; }

includes() { grep -rnoE '^ *# *include *[<"][^>"]+[>"]' --include='*.h' --include='*.cc' --include='*.inc' src; }

bad=$(
  {
    echo "$table" | sed 's/^/ROOM /'
    includes | sed -E 's/^src\/([^\/]+)\/([^:]*):([0-9]+): *# *include *([<"])([^>"]+)[>"]/INC \1 src\/\1\/\2:\3 \4 \5/'
  } | awk '
    $1 == "ROOM" { level[$2] = $3; torch[$2] = $4; next }
    $1 == "INC" {
      room = $2; where = $3; kind = $4; path = $5
      if (!(room in level)) { print where ": room " room " is not in the table of src/README.md"; next }
      split(path, part, "/"); other = part[1]
      if (room == "cli") { if (kind == "\"" && path != "trl.h" && path != "trl/trl.h" && path != "trl/serve.h" && path != "base/c_handle.h" && path != "base/text/message_text.h" && path != "base/text/nearest.h" && path != "config/method.h" && path != "config/online/reward_numbers.h" && path != "reward/command_entry.h" && index(path, "cli/") != 1) print where ": cli/ includes " path; next }
      if (path == "nlohmann/json.hpp" && where !~ /^src\/base\/json\/json\.h:/ ) { print where ": includes " path " and not base/json/json.h, whose values need no memory to go"; next }
      if (path ~ /^boost\// && where !~ /^src\/serve\/http\// ) { print where ": only serve/http may include " path; next }
      if (room == "serve") { if (kind == "\"" && path !~ /^(trl\/(trl|serve)\.h|(base|serve|text\/response)\/.*|capi\/serve_table\.h)$/) print where ": serve/ includes " path; next }
      if (path ~ /^(torch|ATen|c10|caffe2|dnnl|oneapi)/ && torch[room] == "no") { print where ": torch-free room includes <" path ">"; next }
      if (path ~ /^(dnnl|oneapi)/ && where !~ /^src\/kernels\/gemm/ ) { print where ": only kernels/gemm may include " path; next }
      if (kind != "\"" || !(other in level)) next
      if (other == room) next
      if (level[other] >= level[room]) print where ": " room " (" level[room] ") includes " path " (" level[other] ")"
      else if (torch[room] == "no" && torch[other] == "yes") print where ": torch-free " room " includes " path
    }'
)

banned=$(grep -rnE '(^|[^A-Za-z0-9_:>.])(std::)?(printf|puts|abort|exit|_exit|signal|sigaction|setlocale|strtod|atof|getenv|setenv)\(|std::(cout|cerr)|torch/torch\.h' \
  --include='*.h' --include='*.cc' --include='*.inc' src | grep -v '^src/cli/' || true)
long=$(find src include bindings tests bench examples \( -name '*.cc' -o -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.inc' \) ! -path include/trl/trl.h -print0 |
  xargs -0r awk '!/^[[:space:]]*(\/\/.*|\/\*.*|\*.*)?$/ { code[FILENAME]++ }
    END { for (file in code) if (code[file] > 600) print file ": " code[file] " lines of code (at most 600)" }')

for found in "$bad" "$banned" "$long"; do [ -z "$found" ] || echo "$found"; done
[ -z "$bad$banned$long" ]
