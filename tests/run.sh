#!/usr/bin/env bash
# usage: tests/run.sh [--slow] [--ci]
# Installs what is missing, builds, and runs every test with the recorded numbers of tests/golden alone. Then come the tests
# that the whole collection of recorded numbers adds something to, where there is one: in ../shared/golden, or where
# TRL_GOLDEN says. --slow adds what is longer: the tests labelled slow, a build without SIMD, all of it under
# AddressSanitizer + UBSan, what has threads under ThreadSanitizer, both without the engine and with it, and a build that
# compiles each source by itself, those of bench too. --ci adds the format check and clang-tidy over the sources that changed, and
# installs the languages of the bindings, whose tests are skipped where one is missing. Again it takes seconds to build.
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

mkdir -p build
packages=(locales make libjson-c-dev libcpp-httplib-dev)
# need COMMAND PACKAGE...: these packages, unless the machine has the command, from wherever.
need() { command -v "$1" >/dev/null || packages+=("${@:2}"); }
if [ -n "$ci" ]; then
  packages+=(clang-format clang-tidy-16 python3 python3-pip python3-setuptools python3-wheel libjna-java)
  need go golang-go
  need cargo cargo rustc
  need npm nodejs npm
  need javac openjdk-17-jdk-headless
  need abidiff abigail-tools
  # On a machine that lives for one run, dpkg need not wait for the disk after each of some 700 packages.
  echo 'Dpkg::Options:: "--force-unsafe-io";' >build/apt.conf
  export APT_CONFIG=$PWD/build/apt.conf
fi
bash examples/setup.sh "${packages[@]}"
# Debian does not have koffi: npm fetches it, once (4 MB).
if [ -n "$ci" ] && ! node tests/bindings/node/koffi.cjs "$PWD" >/dev/null; then
  export TRL_NODE_MODULES=$PWD/build/node_modules
  koffi=$(node -p 'require("./bindings/node/package.json").dependencies.koffi')
  [ -e "$TRL_NODE_MODULES/koffi" ] ||
    npm install --silent --no-audit --no-fund --no-save --no-package-lock --prefix build "koffi@$koffi" || {
      echo "tests/run.sh: npm cannot fetch koffi@$koffi, which the tests of bindings/node need; where its registry is out" >&2
      echo "of reach, TRL_NODE_MODULES may name a folder that holds koffi" >&2
      exit 1
    }
fi
jobs=$(nproc)
export CTEST_OUTPUT_ON_FAILURE=1
export GOMP_SPINCOUNT=100  # threads that wait sleep at once: the processors are another test's, too
collection=${TRL_GOLDEN-../shared/golden}
[ -z "$collection" ] || collection=$(cd "$collection" 2>/dev/null && pwd) || collection=
export TRL_GOLDEN=
passed=0 failed=0 skipped=0 reasons=

# skips BUILD_DIR SUITE: each skipped test of the last ctest there, with the reason that it gave.
skips() {
  find "$1/tests/results" -type f -exec awk -F '\t' -v suite="$2" '
    FNR == 1 { room = FILENAME; sub(/.*\//, "", room); sub(/[a-z_]*part_[0-9_of]*$/, "", room) }
    $1 == "skipped" { print "  " suite ": " room $2 ": " $3 }' {} +
  sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*Skipped.*/\1/p' "$1/ctest.log" |
    awk -v suite="$2" 'NR == FNR { skipped[$1]; next }
      / Testing: / { name = $3; reason = ""; written = 0 }
      /^Output:$/ { written = 1; next }
      written && /: Skipped$/ { written = 2; next }
      written == 2 { reason = $0; written = 0 }
      /^<end of output>$/ { written = 0; if (name in skipped) print "  " suite ": " name ": " reason }
      written == 1 && /[^ -]/ && !/^\[/ { reason = $0 }' - "$1/Testing/Temporary/LastTest.log"
}

# parts BUILD_DIR: how many parts the last ctest there ran, how many of them failed, and how many tests of parts ran,
# failed and were skipped. A part that failed without one of its tests has one failure more.
parts() {
  local part state file count=0 bad=0 ran=0 failed=0 skipped=0 fails
  while read -r part state; do
    file=$1/tests/results/$part
    [ -e "$file" ] || file=/dev/null
    fails=$(grep -c '^failed' "$file" || true)
    count=$((count + 1)) ran=$((ran + $(wc -l <"$file"))) skipped=$((skipped + $(grep -c '^skipped' "$file" || true)))
    if [ "$state" != Passed ]; then
      bad=$((bad + 1))
      [ "$fails" -gt 0 ] || fails=1 ran=$((ran + 1))
    fi
    failed=$((failed + fails))
  done < <(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([a-z_.]+part_[0-9]+_of_[0-9]+) [. ]*([^ 0-9]+).*/\1 \2/p' "$1/ctest.log")
  echo "$count $bad $ran $failed $skipped"
}

# suite NAME BUILD_DIR CTEST_ARGS FILTER CMAKE_ARGS...: FILTER is that of gtest, for the tests in parts; programs that are
# given another one by ctest do not read it.
suite() {
  local name=$1 build=$2 selection=$3 filter=$4 log=$2/ctest.log
  shift 4
  echo "== $name"
  cmake -G Ninja -S . -B "$build" -DTRL_WERROR=ON -DTRL_BUILD_BENCH=OFF "$@" >"$build.log" 2>&1 || { cat "$build.log"; return 1; }
  ninja -C "$build" -j"$jobs" 2>&1 | tee "$build.log" | bash examples/progress.sh "$name, building" ||
    { grep -E -A20 'FAILED|error' "$build.log" | head -n 100; return 1; }
  [ ! -d "$build/tests/results" ] || find "$build/tests/results" -type f -delete
  # shellcheck disable=SC2086  # words
  GTEST_FILTER=$filter ctest --test-dir "$build" -j"$jobs" $selection --timeout 1200 2>&1 | tee "$log" |
    bash examples/progress.sh "$name, tests" || true
  local total bad skip part bad_parts ran failed_in_parts skipped_in_parts
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
  # A part counts as the tests in it.
  read -r part bad_parts ran failed_in_parts skipped_in_parts < <(parts "$build")
  total=$((total - part + ran)) bad=$((bad - bad_parts + failed_in_parts)) skip=$((skip + skipped_in_parts))
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
every='-L fast|full -LE single'  # all in parts that have parts
suite release build/release "$every" '-Published*'
# The collection has more than tests/golden: published templates and tokenizers, and all values of large tensors.
whole=Published*
if [ -n "$collection" ]; then
  whole+=':*TokenizerText*:Tokenizer.Recorded*:SentencePiece.Normalizes*:*Recorded.PreparedDatasets*:Forward.*:Gradients.*'
  whole+=':Classifier.*:Divergence.*:*OnlineTrajectory.*:*RealTrajectory.*:*PpoTrajector*:*Trajectory.*sft_plain*:*Trajectory.*dpo_sigmoid*'
  whole+=':FamilyTrajectories.*:AdapterTrajectories.*:Peft.*:Quantised.*:EightBitStates.ArePublished*:Plan.RowsAreNoLonger*'
fi
TRL_GOLDEN=$collection suite collection build/release '-L parts' "$whole"
if [ $slow = yes ]; then
  suite slow build/release '-L slow' '*'
  suite scalar build/scalar "$every" '-Published*' -DTRL_CPU=scalar
  suite engine-address build/engine-address "$every" '-Published*' -DTRL_SANITIZE=address
  suite thread build/thread '-L fast -LE single -E locale' \
    '-Published*:SentencePiece.Normalizes*:ChatTemplateLimits.*:TokenizerHostile.*:*HundredMegabytes*' \
    -DTRL_ENGINE=OFF -DTRL_BUILD_CLI=OFF -DTRL_SANITIZE=thread
  suite engine-thread build/engine-thread '-L full -LE single -E locale' 'TwoTrainers.*:BesideTraining.*:LearnWhileServing.*' \
    -DTRL_BUILD_CLI=OFF -DTRL_SANITIZE=thread
  suite apart build/apart '-R ^config\. -LE single' '*' -DTRL_JOIN_SOURCES=OFF -DTRL_BUILD_BENCH=ON  # that it compiles is what counts
fi
[ -z "$reasons" ] || printf 'skipped:\n%s' "$reasons"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
