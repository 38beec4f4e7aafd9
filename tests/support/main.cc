// main() of every test program. TRL_TEST_LOCALE: the locale that the process has, for C and C++, as a host's
// may. TRL_TEST_SKIPPED: the exit status if nothing failed and some test was skipped.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <locale>
#include <stdexcept>

int main(int argc, char** argv) {
  if (const char* name = std::getenv("TRL_TEST_LOCALE")) {
    try {
      std::locale::global(std::locale(name));
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "TRL_TEST_LOCALE=%s: %s\n", name, error.what());
      return 1;
    }
  }
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  const char* const skipped = std::getenv("TRL_TEST_SKIPPED");
  const bool skips = testing::UnitTest::GetInstance()->skipped_test_count() > 0;
  return status == 0 && skips && skipped != nullptr ? std::atoi(skipped) : status;
}
