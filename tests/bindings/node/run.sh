#!/usr/bin/env bash
# usage: run.sh PROJECT COMMAND...: runs a command that needs Node 18 and koffi, or says what is missing and exits with 77.
set -euo pipefail
project=$1
shift
command -v node >/dev/null || { echo "there is no node"; exit 77; }
node -e 'process.exit(process.versions.node.split(".")[0] < 18 ? 1 : 0)' || { echo "node $(node --version) is older than 18"; exit 77; }
node "$project/tests/bindings/node/koffi.cjs" "$project" >/dev/null || {
  echo "there is no koffi of npm; TRL_NODE_MODULES or NODE_PATH may have the node_modules with it"
  exit 77
}
exec "$@"
