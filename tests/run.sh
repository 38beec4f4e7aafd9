#!/usr/bin/env bash
# usage: tests/run.sh [--slow] [--ci]
# Installs what is missing, builds, and runs every test: the release build with the engine, then everything that opens
# no engine under AddressSanitizer + UBSan and under ThreadSanitizer. --slow adds what is longer: the tests labelled slow,
# a build without SIMD, and the engine under AddressSanitizer. --ci adds the format check. Again it takes seconds to
# build.
set -euo pipefail
cd "$(dirname "$0")/.."

slow=no ci=
for argument in "$@"; do
  case $argument in
    --slow) slow=yes ;;
    --ci) ci=--ci ;;
    *) echo "usage: tests/run.sh [--slow] [--ci]" >&2; exit 2 ;;
  esac
done

bash examples/setup.sh locales ${ci:+clang-format}
jobs=$(nproc)
export CTEST_OUTPUT_ON_FAILURE=1
passed=0 failed=0 skipped=0

# suite NAME BUILD_DIR CTEST_LABELS CMAKE_ARGS...
suite() {
  local name=$1 build=$2 labels=$3 log
  shift 3
  echo "== $name"
  cmake -G Ninja -S . -B "$build" -DTRL_WERROR=ON "$@" >"$build.log" 2>&1 || { cat "$build.log"; return 1; }
  ninja -C "$build" -j"$jobs" >"$build.log" 2>&1 || { grep -E -A20 'FAILED|error' "$build.log" | head -n 100; return 1; }
  log=$build/ctest.log
  ctest --test-dir "$build" -j"$jobs" -L "$labels" --timeout 1200 >"$log" 2>&1 || true
  local total bad skip
  total=$(sed -n 's/.* tests failed out of \([0-9]*\)$/\1/p' "$log" | tail -n 1)
  bad=$(sed -n 's/.*, \([0-9]*\) tests failed out of .*/\1/p' "$log" | tail -n 1)
  skip=$(grep -c '\*\*\*Skipped' "$log" || true)
  if [ -z "$total" ] || [ "$total" -eq 0 ]; then
    tail -n 40 "$log"
    echo "$name: no test ran"
    return 1
  fi
  if [ "$bad" -gt 0 ]; then
    grep -E -B2 -A60 '\*\*\*(Failed|Exception|Timeout|Not Run)' "$log" | head -n 400 || true
    tail -n 30 "$log"
  fi
  [ "$skip" -gt 0 ] && grep '\*\*\*Skipped' "$log"
  echo "$name: $((total - bad - skip)) passed, $bad failed, $skip skipped"
  passed=$((passed + total - bad - skip)) failed=$((failed + bad)) skipped=$((skipped + skip))
}

if [ -n "$ci" ]; then
  echo "== format"
  git ls-files '*.cc' '*.h' '*.c' '*.hpp' | xargs clang-format --dry-run -Werror
fi
mkdir -p build
suite release build/release 'fast|full'
suite address build/address fast -DTRL_ENGINE=OFF -DTRL_BUILD_CLI=OFF -DTRL_SANITIZE=address -DTRL_BUILD_BENCH=OFF
suite thread build/thread fast -DTRL_ENGINE=OFF -DTRL_BUILD_CLI=OFF -DTRL_SANITIZE=thread -DTRL_BUILD_BENCH=OFF
if [ $slow = yes ]; then
  suite slow build/release slow
  suite scalar build/scalar 'fast|full' -DTRL_CPU=scalar -DTRL_BUILD_BENCH=OFF
  suite engine-address build/engine-address 'fast|full' -DTRL_SANITIZE=address -DTRL_BUILD_BENCH=OFF
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
