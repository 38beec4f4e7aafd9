// Parses YAML (and so JSON) text into JSON values. Untrusted: size, depth and the number of expanded nodes
// are bounded.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace trl::config {

struct YamlEntry {
  std::string key;
  int64_t line = 0, column = 0;  // of the key
  // A scalar is its text (a string) or null; nested values are typed, booleans as in YAML 1.1.
  base::Json value;
  bool plain = false;        // a scalar without quotes
  std::string text() const;  // as Config::set takes it
};

// Converts an integer that YAML 1.1, which PyYAML reads, writes in another base (0x1F, 0b11, 010: octal) to
// decimal; returns any other text unchanged.
std::string decimal(const std::string& text);

// Parses a document that must be one mapping. A key given twice has its last value, and a line in warnings.
// Throws Error(format) or Error(invalid_config) with origin and line.
std::vector<YamlEntry> parse_yaml_mapping(std::string_view text, std::string_view origin,
                                          std::vector<std::string>& warnings);

// Parses one value written on a command line: "{a: 1, b: [x, y]}", "[a, b]" or JSON. Throws
// Error(invalid_config) naming key.
base::Json parse_flow(std::string_view text, std::string_view key);

}  // namespace trl::config
