#!/usr/bin/env bash
# usage: missing_language.sh SCENARIO_COMMAND...: a language that is missing skips its scenario, with the reason.
set -euo pipefail
code=0
said=$("$@" missing bash -c 'echo "there is no such language"; exit 77') || code=$?
[ "$code" = 77 ] && [ "$said" = "there is no such language" ] || { echo "exit code $code, not 77: $said"; exit 1; }
