#!/usr/bin/env bash
# The layer check must find each kind of offence, in a copy of the tree with one planted.
set -euo pipefail
project=$1
here=$(cd "$(dirname "$0")" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

expect() { # FILE LINE TEXT: planting LINE in FILE makes the check fail and say TEXT
  rm -rf "$copy/src"
  cp -r "$project/src" "$copy/src"
  mkdir -p "$copy"/{include,bindings,tests,bench,examples}
  printf '%s\n' "$2" >>"$copy/src/$1"
  if out=$(bash "$here/check.sh" "$copy"); then echo "not found: $2 in $1"; exit 1; fi
  grep -qF "$3" <<<"$out" || { echo "expected '$3' in: $out"; exit 1; }
}
expect base/files/hash.h '#include "config/config.h"' 'base (0) includes config/config.h (1)'
expect config/table/option.h '#include "text/tokenizer/tokenizer.h"' 'config (1) includes text/tokenizer/tokenizer.h (1)'
expect data/prepare/sft.h '#include <ATen/ATen.h>' 'torch-free room includes <ATen/ATen.h>'
expect capi/planted.h '#include "tensor/memory/counted.h"' 'torch-free capi includes tensor/memory/counted.h'
expect model/model.h '#include <dnnl.hpp>' 'only kernels/gemm may include dnnl.hpp'
expect cli/planted.h '#include "base/error.h"' 'cli/ includes base/error.h'
expect base/files/hash.h 'inline void f() { std::abort(); }' 'abort('
