#!/usr/bin/env bash
# Every exported function is noexcept, and its body is one call of the border (guard, answer or what is built on them).
set -euo pipefail
source=$1
. "$source/tests/abi/functions.sh"
code=$(find "$source/src/capi" -name '*.cc' -exec cat {} + | tr '\n' ' ')
bad=0 seen=0
for name in $(header_functions "$source/include/trl/trl.h"); do
  body=$(grep -o "[ *]$name([^{};]*) noexcept { *[A-Za-z_:<> ]*(" <<<"$code" || true)
  seen=$((seen + 1))
  case "$body" in
    *"{ return guard("* | *"{ return guard<From::anywhere>("* | *"{ return guard<From::rollouts>("*) ;;
    *"{   return guard("* | *"{   return guard<From::anywhere>("* | *"{   return guard<From::rollouts>("*) ;;
    *"{ return answer("* | *"{   return answer("* | *"{ answer("* | *"{   answer("*) ;;
    *"{ return give_text("* | *"{   return give_text("*) ;;
    *"{ return field("* | *"{   return field("* | *"{   return text_in("* | *"{ destroy("*) ;;
    *) echo "$name: no guard: '$body'"; bad=1 ;;
  esac
done
[ "$seen" -ge 60 ] || { echo "only $seen functions seen"; exit 1; }
exit $bad
