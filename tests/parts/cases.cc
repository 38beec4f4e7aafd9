// Tests that end in every way, for results.sh.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

TEST(Ends, Passes) { std::puts("of a test that passes"); }
TEST(Ends, Fails) { EXPECT_EQ(1, 2); }
TEST(Ends, Skips) { GTEST_SKIP() << "for this\nreason"; }
TEST(Ends, Crashes) { std::raise(SIGKILL); }
TEST(Ends, PassesAfterACrash) {}
TEST(Others, ExitWithoutAResult) { std::_Exit(0); }
TEST(Others, FailAndSkip) {
  ADD_FAILURE();
  GTEST_SKIP() << "too late";
}
TEST(Others, PassAtTheEnd) {}
