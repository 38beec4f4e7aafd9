#!/usr/bin/env bash
# usage: tests/tidy.sh [FILE...]
# Runs clang-tidy with the checks of .clang-tidy over each FILE. Without one, over the sources under src/ that changed: since
# the branch left origin/main, or in the last commit where HEAD is on origin/main or there is none; what is not committed
# counts. A changed header is checked through one source that includes it. Sources without libtorch come first, because the
# others take half a minute each. After 180 seconds, or TRL_TIDY_SECONDS, no other file is started. Builds nothing. Exits
# with 1 when there are findings, with 2 when it cannot work.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."
here=$(pwd -P)
build=build/tidy
limit=${TRL_TIDY_SECONDS:-180}

say() { echo "tidy: $*"; }
refuse() { say "$@" >&2; exit 2; }

# base_of_change: the commit that HEAD is compared with.
base_of_change() {
  local base=''
  if git rev-parse -q --verify origin/main >/dev/null && ! git merge-base --is-ancestor HEAD origin/main; then
    base=$(git merge-base HEAD origin/main) || true
  fi
  [ -n "$base" ] || base=$(git rev-parse -q --verify HEAD^) || true
  if [ -z "$base" ]; then
    say "this clone does not have the commit before HEAD, so only what is not committed is checked" >&2
    base=HEAD
  fi
  echo "$base"
}

# changed BASE: the sources under src/ to check, one a line.
changed() {
  local file source
  {
    git diff --name-only --diff-filter=d "$1" -- src
    git ls-files --others --exclude-standard -- src
  } | while IFS= read -r file; do
    case $file in
      *.cc) echo "$file" ;;
      *.h | *.inc)
        source=${file%.*}.cc
        [ -e "$source" ] || source=$(git grep -lF "#include \"${file#src/}\"" -- 'src/*.cc' | head -n 1) || true
        if [ -n "$source" ]; then echo "$source"; else say "no source includes $file, which is not checked" >&2; fi ;;
    esac
  done | sort -u
}

# What clang 16 needs to read a source with libtorch. In C++20 it wants the element of a vector complete too early for
# libtorch's IValue, because all of std::vector is constexpr; and OpenMP's header is gcc's, with an attribute that clang does
# not have.
torch_header=$build/libtorch_for_clang.h
torch_arguments=(-fno-openmp -idirafter "$(g++ -print-file-name=include)" -include "$here/$torch_header")
write_torch_header() {
  cat >"$torch_header" <<'END'
#include <string>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 fill_bits  // declared constexpr before
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
#define __malloc__(...)
#include <omp.h>
#undef __malloc__
END
}

# check FILE ARGUMENT...: prints the findings of FILE, with paths from here. ARGUMENTs are clang's.
check() {
  local file=$1 out errors=$build/errors/${1//\//_}
  shift
  out=$(clang-tidy-16 -p $build --quiet "${@/#/--extra-arg=}" "$file" 2>"$errors") && return
  [ -n "$out" ] || out="$file: clang-tidy-16 failed"$'\n'$(tail -n 40 "$errors")
  printf '%s\n' "${out//"$here/"/}"
  return 1
}

command -v clang-tidy-16 >/dev/null || refuse "there is no clang-tidy-16: bash examples/setup.sh clang-tidy-16"
wanted=()
if [ $# -gt 0 ]; then
  for name in "$@"; do
    path=$(cd "$from" && realpath -e --relative-to="$here" -- "$name" 2>/dev/null) || refuse "there is no file $name"
    wanted+=("$path")
  done
else
  git rev-parse -q --verify HEAD >/dev/null || refuse "without git it is not known what changed; name the files"
  base=$(base_of_change)
  mapfile -t wanted < <(changed "$base")
  if [ ${#wanted[@]} -eq 0 ]; then
    say "no source or header under src/ changed since $(git rev-parse --short "$base")"
    exit 0
  fi
fi

mkdir -p $build/errors
write_torch_header
cmake -G Ninja -S . -B $build -DTRL_JOIN_SOURCES=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >$build.log 2>&1 ||
  { cat $build.log; refuse "cmake failed"; }
# Each source that is compiled: 0 or 1, whether it sees libtorch's headers, and its path.
sources=$(awk -F'"' -v here="$here/" '$2 == "command" { torch = /torch_headers/ }
  $2 == "file" { file = $4; if (index(file, here) == 1) file = substr(file, length(here) + 1); print torch + 0, file }' \
  $build/compile_commands.json)

free=() torch=()
for path in "${wanted[@]}"; do
  case $path in src/kernels/cpu/table_cpu_*.cc)
    say "$path is not checked: clang lacks gcc's __builtin_shuffle"
    continue ;;
  esac
  if grep -qxF "0 $path" <<<"$sources"; then free+=("$path")
  elif grep -qxF "1 $path" <<<"$sources"; then torch+=("$path")
  else say "$path is not checked: the build on this machine does not compile it"
  fi
done
files=("${free[@]}" "${torch[@]}")
[ ${#files[@]} -gt 0 ] || exit 0

started=0 running=0 bad=0 jobs=$(nproc) SECONDS=0
finish_one() {
  wait -n || bad=$((bad + 1))
  running=$((running - 1))
}
for file in "${files[@]}"; do
  [ $running -lt "$jobs" ] || finish_one
  [ $SECONDS -lt "$limit" ] || break
  arguments=()
  [ $started -lt ${#free[@]} ] || arguments=("${torch_arguments[@]}")
  check "$file" "${arguments[@]}" &
  started=$((started + 1)) running=$((running + 1))
done
while [ $running -gt 0 ]; do finish_one; done

over=
[ $started -eq ${#files[@]} ] || over=", because $limit seconds were over"
say "checked $started of ${#files[@]} files$over; $bad with findings"
[ $bad -eq 0 ]
