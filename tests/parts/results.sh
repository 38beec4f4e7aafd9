#!/usr/bin/env bash
# usage: results.sh PROGRAM: the results that a program of tests writes are true, however many share a process.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TRL_TEST_APART=$work/results

cat > "$work/expected" <<'R'
passed	Ends.Passes	
failed	Ends.Fails	
skipped	Ends.Skips	for this reason
failed	Ends.Crashes	Killed
passed	Ends.PassesAfterACrash	
failed	Others.ExitWithoutAResult	status 0
failed	Others.FailAndSkip	too late
passed	Others.PassAtTheEnd	
R
for together in 1 3 100; do
  if TRL_TEST_TOGETHER=$together "$program" > "$work/said"; then echo "failures are not told"; exit 1; fi
  diff "$work/expected" <(cut -f 1-3 "$work/results")
  grep -q '^Ends.Crashes: the process ended: Killed$' "$work/said"
  ! grep 'of a test that passes' "$work/said" || [ "$together" -gt 1 ]
done
TRL_TEST_TOGETHER=100 TRL_TEST_ALONE=Ends.PassesAfterACrash:Others.FailAndSkip "$program" > "$work/said" || true
diff "$work/expected" <(cut -f 1-3 "$work/results")
# A part that only passes and skips, and one without a test.
GTEST_FILTER='*Pass*:*.Skips' "$program"
grep -q '^skipped' "$work/results"
GTEST_TOTAL_SHARDS=9 GTEST_SHARD_INDEX=8 "$program"
[ ! -s "$work/results" ]
