#!/usr/bin/env bash
# usage: install.sh PROJECT LIBRARY: npm packs the package without a network, and what it packed finds a library that is next
# to it, before one of the environment's loader paths.
set -euo pipefail
project=$1 library=$2
command -v npm >/dev/null || { echo "there is no npm"; exit 77; }
koffi=$(node "$project/tests/bindings/node/koffi.cjs" "$project")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset TRL_LIBRARY TRL_NODE_MODULES NODE_PATH
export npm_config_cache=$work/cache npm_config_offline=true npm_config_update_notifier=false
npm pack --silent --pack-destination "$work" "$project/bindings/node" >/dev/null
mkdir -p "$work/node_modules"
tar -xzf "$work"/libtrl-*.tgz -C "$work/node_modules"
mv "$work/node_modules/package" "$work/node_modules/libtrl"
ln -s "$koffi" "$work/node_modules/koffi"
ln -s "$library" "$work/node_modules/libtrl/lib/libtrl.so.0"
test -e "$work/node_modules/libtrl/index.d.ts" && test -e "$work/node_modules/libtrl/lib/api.d.ts"
cd "$work"
cat > program.mjs <<'P'
import { readFileSync } from 'node:fs';
import * as trl from 'libtrl';
const { libraryPath } = await import(new URL('node_modules/libtrl/lib/library.js', import.meta.url));
const { VERSION } = await import(new URL('node_modules/libtrl/lib/api.js', import.meta.url));
const { version } = JSON.parse(readFileSync('node_modules/libtrl/package.json'));
if (version !== VERSION.join('.')) throw new Error(`the package is version ${version}`);
if (!libraryPath().endsWith('node_modules/libtrl/lib/libtrl.so.0')) throw new Error(libraryPath());
console.log(trl.version());
P
node program.mjs
