// Recorded numbers for tests: ../shared/golden beside the project when it is there, else the part copied into
// tests/data. A test whose file is in neither is skipped, visibly.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/files.h"
#include "base/json.h"

namespace trl::test {

inline std::string golden_path(const std::string& relative) {
  for (const std::string root : {TRL_SOURCE_DIR "/../shared/golden/", TRL_SOURCE_DIR "/tests/data/"}) {
    if (base::file_exists(root + relative)) return root + relative;
  }
  return {};
}

// Read once; a reference, so that a loop over a part of it may stand in the call itself.
inline const base::Json& golden_json(const std::string& relative) {
  static std::map<std::string, base::Json> files;
  const auto found = files.find(relative);
  return found != files.end()
             ? found->second
             : files.emplace(relative, base::read_json_file(golden_path(relative))).first->second;
}

inline bool close(double got, double want, double atol, double rtol) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= atol + rtol * std::max(1.0, std::abs(want));
}

}  // namespace trl::test

// First line of a test that reads recorded numbers.
#define TRL_NEED_GOLDEN(relative) \
  if (trl::test::golden_path(relative).empty()) GTEST_SKIP() << "no recorded numbers: " << relative
