// Compares metrics with recorded ones.
#pragma once
#include <set>
#include <string>

#include "loss/metrics.h"
#include "loss/recorded_tokens.h"
#include "support/golden.h"

namespace trl::test {

// Expects the recorded metrics, no more and no fewer; `elsewhere` are of other code.
inline void expect_metrics(const loss::Metrics& got, const base::Json& want,
                           const std::set<std::string>& elsewhere = {}) {
  std::set<std::string> names;
  for (const auto& [name, value] : got) {
    names.emplace(name);
    ASSERT_TRUE(want.contains(name)) << name;
    EXPECT_TRUE(close(value, recorded_number(want[name]), limits::function))
        << name << ": " << value << " instead of " << want[name];
  }
  for (const auto& [name, value] : want.items())
    EXPECT_TRUE(names.contains(name) || elsewhere.contains(name)) << name;
}

}  // namespace trl::test
