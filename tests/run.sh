#!/usr/bin/env bash
# usage: tests/run.sh [--slow] [--ci]
# Installs what is missing, builds, and runs every test: the release build with the engine, then everything that opens
# no engine under AddressSanitizer + UBSan, and what of it has threads under ThreadSanitizer, all of it with the recorded
# numbers of tests/golden alone. Then come the tests that the whole collection of recorded numbers adds something to, where
# there is one: in ../shared/golden, or where TRL_GOLDEN says. --slow adds what is longer: the tests labelled slow, a
# build without SIMD, the engine under AddressSanitizer, and a build that compiles each source by itself. --ci adds the
# format check and clang-tidy over the sources that changed. Again it takes seconds to build.
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

bash examples/setup.sh locales make libjson-c-dev libcpp-httplib-dev ${ci:+clang-format clang-tidy-16}
jobs=$(nproc)
export CTEST_OUTPUT_ON_FAILURE=1
export GOMP_SPINCOUNT=100  # threads that wait sleep at once: the processors are another test's, too
collection=${TRL_GOLDEN-../shared/golden}
[ -z "$collection" ] || collection=$(cd "$collection" 2>/dev/null && pwd) || collection=
export TRL_GOLDEN=
passed=0 failed=0 skipped=0 reasons=

# skips BUILD_DIR SUITE: each skipped test of the last ctest there, with the reason that it printed.
skips() {
  sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*Skipped.*/\1/p' "$1/ctest.log" |
    awk -v suite="$2" 'NR == FNR { skipped[$1]; next }
      / Testing: / { name = $3; reason = ""; written = 0 }
      /^Output:$/ { written = 1; next }
      written && /: Skipped$/ { written = 2; next }
      written == 2 { reason = $0; written = 0 }
      /^<end of output>$/ { written = 0; if (name in skipped) print "  " suite ": " name ": " reason }
      written == 1 && /[^ -]/ && !/^\[/ { reason = $0 }' - "$1/Testing/Temporary/LastTest.log"
}

# suite NAME BUILD_DIR CTEST_ARGS CMAKE_ARGS...
suite() {
  local name=$1 build=$2 selection=$3 log=$2/ctest.log
  shift 3
  echo "== $name"
  cmake -G Ninja -S . -B "$build" -DTRL_WERROR=ON "$@" >"$build.log" 2>&1 || { cat "$build.log"; return 1; }
  ninja -C "$build" -j"$jobs" 2>&1 | tee "$build.log" | bash examples/progress.sh "$name, building" ||
    { grep -E -A20 'FAILED|error' "$build.log" | head -n 100; return 1; }
  # shellcheck disable=SC2086  # words
  ctest --test-dir "$build" -j"$jobs" $selection --timeout 1200 2>&1 | tee "$log" |
    bash examples/progress.sh "$name, tests" || true
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
  [ "$skip" -eq 0 ] || reasons+=$(skips "$build" "$name")$'\n'
  echo "$name: $((total - bad - skip)) passed, $bad failed, $skip skipped"
  passed=$((passed + total - bad - skip)) failed=$((failed + bad)) skipped=$((skipped + skip))
}

if [ -n "$ci" ]; then
  echo "== format"
  git ls-files '*.cc' '*.h' '*.c' '*.hpp' | xargs clang-format --dry-run -Werror
  echo "== clang-tidy"
  bash tests/tidy.sh
fi
mkdir -p build
suite release build/release '-L fast|full -E text.Published'
plain='-L fast -E text.Published|SentencePiece.Normalizes|ChatTemplateLimits.EndlessWork|locale'
suite address build/address "$plain" -DTRL_ENGINE=OFF -DTRL_BUILD_CLI=OFF -DTRL_SANITIZE=address -DTRL_BUILD_BENCH=OFF
suite thread build/thread '-L fast -E text.Published|SentencePiece.Normalizes|ChatTemplateLimits|TokenizerHostile|HundredMegabytes|locale' -DTRL_ENGINE=OFF -DTRL_BUILD_CLI=OFF -DTRL_SANITIZE=thread -DTRL_BUILD_BENCH=OFF
# The collection has more than tests/golden: published templates and tokenizers, and all values of large tensors.
whole=text.Published
if [ -n "$collection" ]; then
  whole+='|TokenizerText|Tokenizer.Recorded|SentencePiece.Normalizes|Recorded.PreparedDatasets|model.Forward|model.Gradients|model.Classifier'
  whole+='|kernels.Divergence|OnlineTrajectory|PpoTrajector|Trajectory.*(sft_plain|dpo_sigmoid)|FamilyTrajectories|AdapterTrajectories|model.Peft|model.Quantised|EightBitStates.ArePublished|Plan.RowsAreNoLonger'
fi
TRL_GOLDEN=$collection suite collection build/release "-R $whole"
if [ $slow = yes ]; then
  suite slow build/release '-L slow'
  suite scalar build/scalar '-L fast|full -E text.Published' -DTRL_CPU=scalar -DTRL_BUILD_BENCH=OFF
  suite engine-address build/engine-address '-L fast|full -E text.Published' -DTRL_SANITIZE=address -DTRL_BUILD_BENCH=OFF
  suite apart build/apart '-R ^config\.' -DTRL_JOIN_SOURCES=OFF  # that it compiles is what counts
fi
[ -z "$reasons" ] || printf 'skipped:\n%s' "$reasons"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
