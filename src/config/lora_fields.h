// Reads the fields of PEFT's LoraConfig in a JSON object, each with its type, and at the end reports an error
// for fields that nothing asked for.
#pragma once
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/nearest.h"
#include "config/lora_config.h"
#include "config/table/option_value.h"

namespace trl::config {

class LoraFields {
  using Json = base::Json;

 public:
  // origin: the option or the file, with which messages begin; object must live as long as this does.
  LoraFields(const Json& object, std::string_view origin, Status status)
      : object_(object), origin_(origin), status_(status) {
    if (!object.is_object())
      fail_fields(
          fmt::format("{}: a mapping of fields is required, not a {}", origin, base::json_type(object)));
  }

  // These leave `out` unchanged if the field is null or missing.
  void integer(std::string_view name, std::string_view range, int64_t& out) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!integral(*value) || !in_range(range, value->get<double>()))
      refuse_value(name, *value, ranged("an integer", range));
    out = value->get<int64_t>();
  }
  void number(std::string_view name, std::string_view range, double& out) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_number() || !std::isfinite(value->get<double>()) || !in_range(range, value->get<double>()))
      refuse_value(name, *value, ranged("a number", range));
    out = value->get<double>();
  }
  void flag(std::string_view name, bool& out) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) refuse_value(name, *value, "true or false");
    out = value->get<bool>();
  }
  void text(std::string_view name, std::string& out) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_string()) refuse_value(name, *value, "a text");
    out = value->get<std::string>();
  }
  // Reads a list of names; a text is a list of one, or of none.
  void texts(std::string_view name, std::vector<std::string>& out) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_array() && !value->is_string()) refuse_value(name, *value, kNames);
    if (*value == "") return out.clear();
    out = list_of_texts(name, value->is_array() ? *value : Json::array({*value}));
  }
  // Reads a list of integers; an integer counts as a list of one.
  void integers(std::string_view name, std::vector<int64_t>& out) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_array() && !value->is_number()) refuse_value(name, *value, kIntegers);
    out = list_of_integers(name, value->is_array() ? *value : Json::array({*value}));
  }
  void modules(std::string_view name, std::optional<ModuleNames>& out) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_string() && !value->is_array())
      refuse_value(name, *value, "a list of names, or a regular expression of the whole name");
    out.emplace();
    if (value->is_string()) out->pattern = value->get<std::string>();
    if (value->is_array()) out->names = list_of_texts(name, *value);
  }
  // Reads a mapping of names to numbers above 0.
  template <class T>
  void pattern(std::string_view name, std::vector<std::pair<std::string, T>>& out) {
    constexpr std::string_view kAccepted =
        std::is_integral_v<T> ? "a mapping of names to integers > 0" : "a mapping of names to numbers > 0";
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_object()) refuse_value(name, *value, kAccepted);
    out.clear();
    for (const auto& [module, item] : value->items()) {
      const bool right = std::is_integral_v<T> ? integral(item) : item.is_number();
      if (!right || !(item.template get<double>() > 0)) refuse_value(name, *value, kAccepted);
      out.emplace_back(module, item.template get<T>());
    }
  }
  void tokens(std::string_view name, std::vector<std::pair<std::string, std::vector<int64_t>>>& out) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    constexpr std::string_view kAccepted = "a list of token ids, or a mapping of embeddings to such lists";
    if (!value->is_structured()) refuse_value(name, *value, kAccepted);
    out.clear();
    if (value->is_array()) return void(out.emplace_back("", list_of_integers(name, *value)));
    for (const auto& [module, ids] : value->items()) {
      if (!ids.is_array()) refuse_value(name, *value, kAccepted);
      out.emplace_back(module, list_of_integers(name, ids));
    }
  }
  const Json* find(std::string_view name) {  // null: not given, or null
    asked_.push_back(name);
    const auto found = object_.find(std::string(name));
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void finish() const {  // throws for a field that was not asked for and has a value
    for (const auto& [name, value] : object_.items()) {
      if (value.empty() || value == Json(false)) continue;
      if (std::ranges::find(asked_, name) != asked_.end()) continue;
      const std::string_view near = base::nearest(name, asked_);
      refuse(name, near.empty()
                       ? "PEFT's LoraConfig has no such field"
                       : fmt::format("PEFT's LoraConfig has no such field; the nearest is {}", near));
    }
  }
  // Throws "<origin>: <name>: <what>".
  [[noreturn]] void refuse(std::string_view name, const std::string& what) const {
    fail_fields(fmt::format("{}: {}: {}", origin_, name, what));
  }

 private:
  static constexpr std::string_view kNames = "a list of names", kIntegers = "a list of integers >= 0";

  [[noreturn]] void fail_fields(const std::string& message) const {
    throw Error(status_, message, status_ == Status::invalid_config ? origin_ : std::string());
  }
  [[noreturn]] void refuse_value(std::string_view name, const Json& value, std::string_view accepted) const {
    refuse(name, fmt::format("{} is not accepted; give {}", shown(as_text(value)), accepted));
  }
  static bool integral(const Json& value) {
    if (value.is_number_integer()) return true;
    return value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>() &&
           std::abs(value.get<double>()) < 9007199254740992.0;  // 2^53
  }
  std::vector<std::string> list_of_texts(std::string_view name, const Json& value) const {
    std::vector<std::string> out;
    for (const Json& item : value) {
      if (!item.is_string() || item.get_ref<const std::string&>().empty()) refuse_value(name, value, kNames);
      out.push_back(item.get<std::string>());
    }
    return out;
  }
  std::vector<int64_t> list_of_integers(std::string_view name, const Json& value) const {
    std::vector<int64_t> out;
    for (const Json& item : value) {
      if (!integral(item) || item.get<double>() < 0) refuse_value(name, value, kIntegers);
      out.push_back(item.get<int64_t>());
    }
    return out;
  }

  const Json& object_;
  const std::string origin_;
  const Status status_;
  std::vector<std::string_view> asked_;
};

}  // namespace trl::config
