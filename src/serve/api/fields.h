// Typed reading of a JSON object of a request: each field once, with its type and range. Errors name the
// field, the value and what is accepted.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "serve/api/error.h"

namespace trl::serve {

// Throws Refusal(400) for what is not a JSON object, and for one in which an object has a name twice.
base::Json parse_body(std::string_view body);
std::string json_text(const base::Json& json);  // invalid UTF-8 is replaced

std::string shown(const base::Json& value);  // the beginning of its text, for messages

// Returns whether the value is this text. The comparison of nlohmann's ends the process without memory.
bool is_text(const base::Json& value, std::string_view text);

struct Range {
  int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
};
struct Span {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool above = false;  // low itself is not accepted
};

class Fields {
 public:
  explicit Fields(const base::Json& object) : object_(object) {}

  // Returns the value of a field, or null if it is absent or null. It counts as read.
  const base::Json* find(std::string_view name);
  // These return nullopt if it is absent or null, and throw Refusal(400) for another type or value.
  std::optional<int64_t> integer(std::string_view name, Range range = {});
  std::optional<double> number(std::string_view name, Span span = {});
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<std::vector<int32_t>> ids(std::string_view name);
  std::optional<std::vector<std::string>> texts(std::string_view name);  // a list of them, or one
  const base::Json* object(std::string_view name);

  // Reads a field that this version does not have: throws Refusal(400) unless it is absent, null or
  // `harmless`.
  void refuse(std::string_view name, const base::Json& harmless, std::string_view why);
  void ignore(std::initializer_list<std::string_view> names);
  std::vector<std::string> unread() const;  // names that no one asked for
  const base::Json& all() const { return object_; }

 private:
  const base::Json& object_;
  std::set<std::string, std::less<>> read_;
};

[[noreturn]] void refuse_value(std::string_view name, const base::Json& value, std::string_view accepted);

}  // namespace trl::serve
