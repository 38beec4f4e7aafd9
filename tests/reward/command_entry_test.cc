// Entries of reward_funcs that name a program.
#include "reward/command_entry.h"

#include <gtest/gtest.h>

#include <utility>

namespace trl::reward {
namespace {

TEST(CommandEntry, NameAndLine) {
  using Parts = std::pair<std::string, std::string>;
  const auto parts = [](std::string_view spec) -> Parts {
    const auto entry = command_entry(spec);
    return entry ? Parts{entry->name, entry->line} : Parts{"no command", ""};
  };
  EXPECT_EQ(parts("command:./tools/score.sh -v 'a b'"), Parts("score.sh", "./tools/score.sh -v 'a b'"));
  EXPECT_EQ(parts(" command: score"), Parts("score", "score"));
  EXPECT_EQ(parts("my-points_1.0=command:python3 score.py"), Parts("my-points_1.0", "python3 score.py"));
  EXPECT_EQ(parts("command:"), Parts("", ""));
  EXPECT_EQ(parts("a=command:x=command:y"), Parts("a", "x=command:y"));
  for (const char* other :
       {"", "accuracy_reward", "commands", "my points=command:a", "=command:a", "f(a=\"command:b\")"})
    EXPECT_EQ(parts(other).first, "no command") << other;
}

}  // namespace
}  // namespace trl::reward
