#include "config/lora_fields.h"

#include <algorithm>
#include <cmath>

#include "base/text/nearest.h"
#include "config/option_value.h"

namespace trl::config {

namespace {

std::string ranged(std::string_view kind, std::string_view range) {
  return fmt::format("{}{} {}", kind, range.front() == '[' ? " in" : "", range);
}

bool integral(const base::Json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>() &&
         std::abs(value.get<double>()) < 9007199254740992.0;  // 2^53
}

}  // namespace

LoraFields::LoraFields(const base::Json& object, std::string_view origin, Status status)
    : object_(object), origin_(origin), status_(status) {
  if (object.is_object()) return;
  throw Error(status,
              fmt::format("{}: a mapping of fields is required, not a {}", origin, base::json_type(object)),
              status == Status::invalid_config ? origin_ : std::string());
}

void LoraFields::refuse(std::string_view name, const std::string& what) const {
  throw Error(status_, fmt::format("{}: {}: {}", origin_, name, what),
              status_ == Status::invalid_config ? origin_ : std::string());
}

void LoraFields::refuse_value(std::string_view name, const base::Json& value,
                              std::string_view accepted) const {
  refuse(name, fmt::format("{} is not accepted; give {}", shown(as_text(value)), accepted));
}

const base::Json* LoraFields::find(std::string_view name) {
  asked_.push_back(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void LoraFields::integer(std::string_view name, std::string_view range, int64_t& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  if (!integral(*value) || !in_range(range, value->get<double>()))
    refuse_value(name, *value, ranged("an integer", range));
  out = value->get<int64_t>();
}

void LoraFields::number(std::string_view name, std::string_view range, double& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_number() || !std::isfinite(value->get<double>()) || !in_range(range, value->get<double>()))
    refuse_value(name, *value, ranged("a number", range));
  out = value->get<double>();
}

void LoraFields::flag(std::string_view name, bool& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) refuse_value(name, *value, "true or false");
  out = value->get<bool>();
}

void LoraFields::text(std::string_view name, std::string& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_string()) refuse_value(name, *value, "a text");
  out = value->get<std::string>();
}

std::vector<std::string> LoraFields::list_of_texts(std::string_view name, const base::Json& value) const {
  std::vector<std::string> out;
  for (const base::Json& item : value) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty())
      refuse_value(name, value, "a list of names");
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<int64_t> LoraFields::list_of_integers(std::string_view name, const base::Json& value) const {
  std::vector<int64_t> out;
  for (const base::Json& item : value) {
    if (!integral(item) || item.get<double>() < 0) refuse_value(name, value, "a list of integers >= 0");
    out.push_back(item.get<int64_t>());
  }
  return out;
}

void LoraFields::texts(std::string_view name, std::vector<std::string>& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_array() && !value->is_string()) refuse_value(name, *value, "a list of names");
  if (*value == "") return out.clear();
  out = list_of_texts(name, value->is_array() ? *value : base::Json::array({*value}));
}

void LoraFields::integers(std::string_view name, std::vector<int64_t>& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_array() && !value->is_number()) refuse_value(name, *value, "a list of integers >= 0");
  out = list_of_integers(name, value->is_array() ? *value : base::Json::array({*value}));
}

void LoraFields::modules(std::string_view name, std::optional<ModuleNames>& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  if (value->is_string()) {
    out = ModuleNames{{}, value->get<std::string>()};
  } else if (value->is_array()) {
    out = ModuleNames{list_of_texts(name, *value), std::nullopt};
  } else {
    refuse_value(name, *value, "a list of names, or a regular expression of the whole name");
  }
}

void LoraFields::pattern(std::string_view name, std::vector<std::pair<std::string, int64_t>>& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_object()) refuse_value(name, *value, "a mapping of names to integers > 0");
  out.clear();
  for (const auto& [pattern, item] : value->items()) {
    if (!integral(item) || item.get<double>() < 1)
      refuse_value(name, *value, "a mapping of names to integers > 0");
    out.emplace_back(pattern, item.get<int64_t>());
  }
}

void LoraFields::pattern(std::string_view name, std::vector<std::pair<std::string, double>>& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_object()) refuse_value(name, *value, "a mapping of names to numbers > 0");
  out.clear();
  for (const auto& [pattern, item] : value->items()) {
    if (!item.is_number() || !(item.get<double>() > 0))
      refuse_value(name, *value, "a mapping of names to numbers > 0");
    out.emplace_back(pattern, item.get<double>());
  }
}

void LoraFields::tokens(std::string_view name,
                        std::vector<std::pair<std::string, std::vector<int64_t>>>& out) {
  const base::Json* const value = find(name);
  if (value == nullptr) return;
  constexpr std::string_view kAccepted = "a list of token ids, or a mapping of embeddings to such lists";
  out.clear();
  if (value->is_array()) {
    out.emplace_back("", list_of_integers(name, *value));
  } else if (value->is_object()) {
    for (const auto& [module, ids] : value->items()) {
      if (!ids.is_array()) refuse_value(name, *value, kAccepted);
      out.emplace_back(module, list_of_integers(name, ids));
    }
  } else {
    refuse_value(name, *value, kAccepted);
  }
}

void LoraFields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (value.empty() || value == base::Json(false)) continue;
    if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
    const std::string_view near = base::nearest(name, asked_);
    refuse(name, near.empty() ? "PEFT's LoraConfig has no such field"
                              : fmt::format("PEFT's LoraConfig has no such field; the nearest is {}", near));
  }
}

}  // namespace trl::config
