// See preference_columns.h.
#include "data/row/preference_columns.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text/number.h"
#include "data/row/conversions.h"

namespace trl::data {

namespace {

// Compares values as Arrow shows rows: keys have no order, and null is the same as absent.
bool same_value(const base::Json& a, const base::Json& b) {
  if (a.is_array() && b.is_array()) return std::ranges::equal(a, b, same_value);
  if (!a.is_object() || !b.is_object()) return a == b;
  const auto within = [](const base::Json& part, const base::Json& whole) {
    return std::ranges::all_of(part.items(), [&](const auto& item) {
      const auto found = whole.find(item.key());
      return found == whole.end() ? item.value().is_null() : same_value(item.value(), *found);
    });
  };
  return within(a, b) && within(b, a);
}

bool continues_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Returns the bytes of the prompt that both texts begin with.
size_t shared_text(const std::string& a, const std::string& b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t at = 0;
  while (at < shorter && a[at] == b[at]) ++at;
  if (at == shorter) return at;
  while (at > 0 && (continues_code_point(a[at]) || continues_code_point(b[at]))) --at;
  return at > 0 && a[at - 1] == ' ' ? at - 1 : at;
}

size_t shared_messages(const base::Json& a, const base::Json& b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t at = 0;
  while (at < shorter && same_value(a[at], b[at])) ++at;
  return at;
}

base::Json slice(const base::Json& list, size_t begin, size_t end) {
  base::Json out = base::Json::array();
  for (size_t i = begin; i < end; ++i) out.push_back(list[i]);
  return out;
}

}  // namespace

Content content_of(const Row& row, std::string_view name) {
  const base::Json* value = find_column(row, name);
  if (value != nullptr && value->is_string()) return Content::text;
  if (value == nullptr || !is_messages(*value)) fail_column(row, name, "text or a list of messages");
  return Content::messages;
}

void convert_to_chatml(Row& row) {
  for (const char* name : {"prompt", "completion", "chosen", "rejected"}) convert_from_value(row, name);
}

void extract_prompt(Row& row) {
  base::Json& columns = row.value;
  if (content_of(row, "chosen") == Content::text) {
    const std::string chosen = text_column(row, "chosen"), rejected = text_column(row, "rejected");
    for (const char* name : {"chosen", "rejected"}) {
      if (!text_column(row, name).empty()) continue;
      fail(Status::format, "{}: column '{}' is empty, but text that begins with the prompt is expected",
           row.where, name);
    }
    const size_t shared = shared_text(chosen, rejected);
    columns["prompt"] = chosen.substr(0, shared);
    columns["chosen"] = chosen.substr(shared);
    columns["rejected"] = rejected.substr(shared);
    return;
  }
  const base::Json chosen = messages_column(row, "chosen"), rejected = messages_column(row, "rejected");
  const size_t shared = shared_messages(chosen, rejected);
  if (shared == 0) {
    fail(Status::format,
         "{}: columns 'chosen' and 'rejected': their prompt cannot be determined; they must begin with the "
         "same messages, or there must be a column 'prompt'",
         row.where);
  }
  columns["prompt"] = slice(chosen, 0, shared);
  columns["chosen"] = slice(chosen, shared, chosen.size());
  columns["rejected"] = slice(rejected, shared, rejected.size());
}

void drop_text_prompt(Row& row) {
  const base::Json* prompt = find_column(row, "prompt");
  const base::Json* chosen = find_column(row, "chosen");
  const base::Json* rejected = find_column(row, "rejected");
  if (prompt == nullptr || chosen == nullptr || rejected == nullptr || !prompt->is_string() ||
      !is_messages(*chosen) || !is_messages(*rejected))
    return;
  const size_t shared = shared_messages(*chosen, *rejected);
  for (size_t i = 0; i < shared; ++i) {
    const base::Json& message = (*chosen)[i];
    const auto content = message.is_object() ? message.find("content") : message.end();
    if (content == message.end() || *content != *prompt) continue;
    row.value.erase("prompt");
    return;
  }
  fail_column(row, "prompt",
              "a list of messages (as in 'chosen' and 'rejected', which do not begin with it)");
}

Row unpaired(const Row& row, bool chosen) {
  Row out = row;
  const char* side = chosen ? "chosen" : "rejected";
  base::Json completion = std::move(out.value[side]);
  out.value.erase("chosen");
  out.value.erase("rejected");
  out.value["completion"] = std::move(completion);
  out.value["label"] = chosen;
  return out;
}

bool label_column(const Row& row, std::string_view name) {
  const base::Json* value = find_column(row, name);
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  if (value != nullptr && value->is_number() && (*value == 0 || *value == 1)) return *value == 1;
  if (value != nullptr && value->is_string() && row.untyped) {
    const auto& word = value->get_ref<const std::string&>();
    if (word == "true" || word == "True" || word == "TRUE" || word == "1") return true;
    if (word == "false" || word == "False" || word == "FALSE" || word == "0") return false;
  }
  fail_column(row, name, "true or false");
}

std::optional<float> number_column(const Row& row, std::string_view name) {
  const base::Json* value = find_column(row, name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string() && row.untyped) {
    const std::optional<double> number = base::parse_double(value->get_ref<const std::string&>());
    if (number && std::isfinite(static_cast<float>(*number))) return static_cast<float>(*number);
  }
  if (!value->is_number() || !std::isfinite(value->get<float>())) fail_column(row, name, "a finite number");
  return value->get<float>();
}

}  // namespace trl::data
