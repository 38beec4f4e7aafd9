#include "serve/api/fields.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/json/unique_json.h"

namespace trl::serve {

namespace {

constexpr size_t kShown = 80;  // bytes of a value in a message

std::string accepted_integers(Range range) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (range.low == std::numeric_limits<int64_t>::min()) return "an integer of at most 64 bits";
  if (range.high == kMost) return fmt::format("an integer >= {}", range.low);
  return fmt::format("an integer from {} to {}", range.low, range.high);
}

std::string accepted_numbers(Span span) {
  if (std::isinf(span.low)) return "a number";
  if (std::isinf(span.high)) return fmt::format("a number {} {}", span.above ? ">" : ">=", span.low);
  return fmt::format("a number {} {} and <= {}", span.above ? ">" : ">=", span.low, span.high);
}

}  // namespace

std::string shown(const base::Json& value) {
  std::string text = json_text(value);
  if (text.size() > kShown) {
    size_t end = kShown;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + "...";
  }
  return text;
}

void refuse_value(std::string_view name, const base::Json& value, std::string_view accepted) {
  throw Refusal(400, fmt::format("{}: {} is not accepted; give {}", name, shown(value), accepted),
                std::string(name));
}

base::Json parse_body(std::string_view body) {
  base::Json json;
  try {
    json = base::parse_unique_json(body, "body");
  } catch (const Error& error) {
    throw Refusal(400, error.message(), error.key());
  }
  if (!json.is_object())
    throw Refusal(400, fmt::format("body: a JSON object is needed, not a {}", base::json_type(json)));
  return json;
}

std::string json_text(const base::Json& json) {
  return json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

bool is_text(const base::Json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

const base::Json* Fields::find(std::string_view name) {
  read_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> Fields::integer(std::string_view name, Range range) {
  const base::Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  int64_t number = 0;
  bool good =
      value->is_number_integer() && !(value->is_number_unsigned() && value->get<uint64_t>() >> 63 != 0);
  if (good) {
    number = value->get<int64_t>();
  } else if (value->is_number_float()) {  // 16.0, as pydantic takes it
    const double real = value->get<double>();
    good = std::trunc(real) == real && std::abs(real) <= kExact;
    if (good) number = static_cast<int64_t>(real);
  }
  if (!good || number < range.low || number > range.high)
    refuse_value(name, *value, accepted_integers(range));
  return number;
}

std::optional<double> Fields::number(std::string_view name, Span span) {
  const base::Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!std::isfinite(number) || number < span.low || number > span.high || (span.above && number == span.low))
    refuse_value(name, *value, accepted_numbers(span));
  return number;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const base::Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_value(name, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> Fields::text(std::string_view name) {
  const base::Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_value(name, *value, "a text");
  return value->get<std::string>();
}

std::optional<std::vector<int32_t>> Fields::ids(std::string_view name) {
  const base::Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse_value(name, *value, "a list of token ids");
  std::vector<int32_t> ids;
  ids.reserve(value->size());
  for (const base::Json& id : *value) {
    const bool good = id.is_number_integer() && id >= 0 && id <= std::numeric_limits<int32_t>::max();
    if (!good) refuse_value(name, id, "token ids, integers from 0 to 2147483647");
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view name) {
  const base::Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  if (!value->is_array()) refuse_value(name, *value, "a text or a list of texts");
  std::vector<std::string> texts;
  for (const base::Json& text : *value) {
    if (!text.is_string()) refuse_value(name, text, "texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

const base::Json* Fields::object(std::string_view name) {
  const base::Json* const value = find(name);
  if (value != nullptr && !value->is_object()) refuse_value(name, *value, "an object");
  return value;
}

void Fields::refuse(std::string_view name, const base::Json& harmless, std::string_view why) {
  const base::Json* const value = find(name);
  if (value == nullptr || *value == harmless) return;
  throw Refusal(400, fmt::format("{}: {} is not accepted: {}", name, shown(*value), why), std::string(name));
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) read_.emplace(name);
}

std::vector<std::string> Fields::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items())
    if (!read_.contains(name)) names.push_back(name);
  return names;
}

}  // namespace trl::serve
