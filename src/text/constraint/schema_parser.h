// Parses one JSON schema into a pattern. schema_references parses references and combinations of schemas,
// schema_values numbers and texts, schema_members arrays and objects.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "text/constraint/json_bounds.h"
#include "text/constraint/pattern_tree.h"

namespace trl::text {

class SchemaParser {
 public:
  // Both outlive it. recursion: how often a schema may be in itself.
  SchemaParser(const base::Json& root, std::string_view key, int recursion)
      : root_(root), key_(key), recursion_(recursion) {}

  // path: the place of the schema, as #/properties/name. Throws Error(invalid_config) of the key.
  PatternTree parse(const base::Json& schema, const std::string& path);

  // Whether a schema is in itself, and whether that made it too large.
  bool is_recursive() const { return is_recursive_; }
  bool is_too_large() const;

 private:
  using Json = base::Json;
  static constexpr uint32_t kNoLimit = PatternTree::kUnlimited;
  static constexpr int kAnyNested = 4;  // values without a schema
  struct Counts {
    uint32_t least, most;
  };

  [[noreturn]] void refuse(const std::string& path, std::string_view what) const;
  void charge(size_t parts, const std::string& path);
  PatternTree any(int depth, const std::string& path);
  void check_name(const std::string& name, const Json& value, const std::string& path) const;
  void check_alone(const Json& schema, const char* name, const std::string& path) const;
  PatternTree choose(const Json& schema, const std::string& path);

  PatternTree parse_whole(const std::function<Json()>& make, const std::string& path);
  const Json* follow(const Json& reference, const std::string& path);
  Json together(const Json& schema, const std::string& path);
  Json both(const Json& a, const Json& b, const std::string& path);
  PatternTree one_of(const Json& values, const Json& schema, const std::string& path);
  PatternTree alternatives(const Json& schema, const char* name, const std::string& path);
  void check_exclusive(const std::vector<Json>& schemas, const std::string& path);

  std::vector<std::string> types_of(const Json& schema, const std::string& path) const;
  PatternTree typed(const Json& schema, const std::string& path);
  PatternTree of_type(const std::string& type, const Json& schema, const std::string& path);

  PatternTree number(const Json& schema, bool integers, const std::string& path);
  std::optional<JsonBound> bound(const Json& schema, const char* name, const char* exclusive,
                                 const std::string& path) const;
  JsonBound bound_at(const Json& value, bool open, const std::string& path) const;
  std::optional<uint32_t> count(const Json& schema, const char* name, const std::string& path) const;
  Counts counts(const Json& schema, const char* least, const char* most, const std::string& path) const;
  PatternTree string(const Json& schema, const std::string& path);
  PatternTree part_pattern(const Json& pattern, const std::string& path) const;

  PatternTree array(const Json& schema, const std::string& path);
  PatternTree tuple(const Json& prefix, const std::string& path);
  PatternTree object(const Json& schema, const std::string& path);
  PatternTree map(const Json& schema, const std::string& path);
  void check_counts(const Json& schema, size_t least, size_t most, const std::string& path) const;
  std::vector<std::string> names_of(const Json& schema, const std::string& path) const;

  const Json& root_;
  const std::string_view key_;
  const int recursion_;
  std::vector<std::string> open_;  // references that are being followed
  std::vector<std::string> met_;   // and those of a schema that is put together
  int nested_ = 0;
  size_t parts_ = 0;
  bool is_recursive_ = false;
};

}  // namespace trl::text
