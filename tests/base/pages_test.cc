// What start leaves resident goes, and the process goes on.
#include "base/memory/system_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <locale>
#include <string>
#include <vector>

namespace trl::base {
namespace {

long kilobytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stol(line.substr(key.size() + 1));
  return 0;
}

TEST(Pages, OfLibrariesAndOfMallocAreGivenBack) {
  const long file = kilobytes("RssFile");
  give_back_pages();
  EXPECT_LT(kilobytes("RssFile"), file - 500);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their malloc keeps what is freed
  std::vector<std::vector<char>> blocks;
  for (int i = 0; i < 20000; ++i) blocks.emplace_back(2000, 'x');
  blocks.emplace_back(100, 'y');  // the heap's end stays in use
  const long with = kilobytes("RssAnon");
  blocks.erase(blocks.begin(), blocks.end() - 1);
  give_back_pages();
  EXPECT_LT(kilobytes("RssAnon"), with - 30000);
  EXPECT_EQ(blocks[0][99], 'y');
#endif
  // volatile: so that the library's code, which lost its pages, is called
  const volatile double one = 1;
  EXPECT_NEAR(std::sin(one), 0.8414709848078965, 1e-15);
}

}  // namespace
}  // namespace trl::base
