#!/usr/bin/env bash
# usage: example.sh PROJECT NAME ARGUMENT...: runs a program of examples/node, which finds the package as if npm had installed it.
set -euo pipefail
project=$1 name=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/node_modules"
ln -s "$project/bindings/node" "$work/node_modules/libtrl"
cp -r "$project/examples/node/$name" "$work"
node "$work/$name/main.js" "$@"
