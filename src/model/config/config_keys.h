// Reads the values of a JSON object of config.json by name, and refuses values of the wrong kind.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"

namespace trl::model {

inline constexpr int64_t kMaxExtent = int64_t{1}  // The largest size; products of two are far below 2^63.
                                      << 24;

// Typed reads from one JSON object; null counts as absent, as in transformers.
class ConfigKeys {
 public:
  ConfigKeys(const base::Json& json, std::string_view origin) : json_(json), origin_(origin) {}

  const base::Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  bool has(const char* key) const { return json_.contains(key); }
  const base::Json& need(const char* key) const {
    const base::Json* value = find(key);
    if (value == nullptr) fail(Status::format, "{}: \"{}\" is missing", origin_, key);
    return *value;
  }
  int64_t size(const char* key, int64_t limit = kMaxExtent) const {
    const base::Json& value = need(key);
    if (!value.is_number_integer() || value.get<double>() < 1 ||
        value.get<double>() > static_cast<double>(limit)) {
      fail(Status::format, "{}: \"{}\" is {}; expected an integer from 1 to {}", origin_, key, value.dump(),
           limit);
    }
    return value.get<int64_t>();
  }
  // A row index as in nn.Embedding: a negative one counts from the end.
  int64_t row_or_none(const char* key, int64_t rows) const {
    const base::Json* value = find(key);
    if (value == nullptr) return -1;
    const int64_t row = value->is_number_integer() ? value->get<int64_t>() : rows;
    if (row < -rows || row >= rows)
      fail(Status::format, "{}: \"{}\" is {}; expected a token id below {}", origin_, key, value->dump(),
           rows);
    return row < 0 ? row + rows : row;
  }
  // Token ids: one, a list, or none.
  std::vector<int32_t> ids(const char* key) const {
    const base::Json* given = find(key);
    const base::Json list = given == nullptr    ? base::Json::array()
                            : given->is_array() ? *given
                                                : base::Json::array({*given});
    std::vector<int32_t> ids;
    for (const base::Json& id : list) {
      const int64_t value = id.is_number_integer() ? id.get<int64_t>() : -1;
      if (value < 0 || value > INT32_MAX)
        fail(Status::format, "{}: \"{}\" is {}; expected a token id, or a list of them", origin_, key,
             given->dump());
      ids.push_back(static_cast<int32_t>(value));
    }
    return ids;
  }
  int64_t size_or(const char* key, int64_t otherwise, int64_t limit = kMaxExtent) const {
    return find(key) != nullptr ? size(key, limit) : otherwise;
  }
  double number(const char* key) const {
    const base::Json& value = need(key);
    if (!value.is_number())
      fail(Status::format, "{}: \"{}\" is {}; expected a number", origin_, key, value.dump());
    return value.get<double>();
  }
  double positive(const char* key) const {
    const double value = number(key);
    if (!(value > 0) || !std::isfinite(value))
      fail(Status::format, "{}: \"{}\" is {}; expected a positive number", origin_, key, value);
    return value;
  }
  double positive_or(const char* key, double otherwise) const {
    return find(key) != nullptr ? positive(key) : otherwise;
  }
  std::vector<double> positives(const char* key, int64_t count) const {
    const base::Json& list = need(key);
    std::vector<double> values;
    for (const base::Json& value : list.is_array() ? list : base::Json::array())
      if (value.is_number() && value.get<double>() > 0) values.push_back(value.get<double>());
    if (std::ssize(values) != count || list.size() != values.size())
      fail(Status::format, "{}: \"{}\" is not a list of {} positive numbers", origin_, key, count);
    return values;
  }
  bool flag_or(const char* key, bool otherwise) const {
    const base::Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean())
      fail(Status::format, "{}: \"{}\" is {}; expected true or false", origin_, key, value->dump());
    return value->get<bool>();
  }
  std::string text_or(const char* key, const char* otherwise) const {
    const base::Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string())
      fail(Status::format, "{}: \"{}\" is {}; expected a string", origin_, key, value->dump());
    return value->get<std::string>();
  }
  std::string_view origin() const { return origin_; }

 private:
  const base::Json& json_;
  std::string_view origin_;
};

}  // namespace trl::model
