#!/usr/bin/env bash
# Every function has a comment in the fixed shape: a summary, each parameter, Contract and @since.
set -euo pipefail
source=$1
. "$source/tests/abi/functions.sh"
awk '
  /^\/\*\*/ { comment = ""; inside = 1 }
  inside { comment = comment "\n" $0; if (/\*\//) inside = 0; next }
  /^TRL_API/ { declaration = ""; open = 1 }
  open {
    declaration = declaration " " $0
    if (/;/) {
      open = 0
      match(declaration, /trl_[a-z0-9_]+\(/)
      name = substr(declaration, RSTART, RLENGTH - 1)
      seen++
      arguments = substr(declaration, RSTART + RLENGTH)
      sub(/\) TRL_NOEXCEPT;.*/, "", arguments)
      n = split(arguments, list, ",")
      for (i = 1; i <= n; i++) {
        if (list[i] == "void") continue
        sub(/.*[ *]/, "", list[i])
        if (index(comment, "@param " list[i] " [") == 0) { print name ": no @param " list[i]; bad = 1 }
      }
      if (comment !~ /Contract: /) { print name ": no Contract"; bad = 1 }
      if (comment !~ /@since [0-9]/) { print name ": no @since"; bad = 1 }
      if (declaration !~ /TRL_API void/ && comment !~ /@return /) { print name ": no @return"; bad = 1 }
      comment = ""
    }
  }
  END { print seen " functions documented"; exit bad || seen < 60 }
' "$source/include/trl/trl.h" "$source/include/trl/serve.h"
while read -r name since rest; do
  case "$name" in '#'*) continue ;; esac
  [ "$since" = 0.1 ] || { echo "$name: since $since is not a version"; exit 1; }
done < <(cat "$source/tests/abi/symbols.txt" "$source/tests/abi/serve_symbols.txt")
