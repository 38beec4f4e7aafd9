// Recorded numbers as JSON.
#pragma once
#include <map>
#include <string>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/recorded.h"

namespace trl::test {

// Read once; a reference, so that a loop over a part of it may stand in the call itself.
inline const base::Json& golden_json(const std::string& relative) {
  static std::map<std::string, base::Json> files;
  const auto found = files.find(relative);
  if (found != files.end()) return found->second;
  return files.emplace(relative, base::parse_json(read_golden(relative), relative)).first->second;
}

}  // namespace trl::test
