// See columns.h. TRL looks at an arbitrary key or at the first row only; here every key and every row must
// agree.
#include "data/row/columns.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace trl::data {

namespace {

std::string column_names(const Row& row) {
  std::string names;
  for (const auto& [name, value] : row.value.items()) {
    if (!names.empty()) names += ", ";
    names += name;
    if (names.size() > 300) return names + ", ...";
  }
  return names.empty() ? "none" : names;
}

std::string described(const base::Json& value) {
  if (value.is_null()) return "null";
  if (value.is_object()) return "an object";
  if (!value.is_array()) return "a " + base::json_type(value);
  return value.empty() ? "an empty list" : "a list of " + base::json_type(value[0]) + "s";
}

bool has(const Row& row, std::string_view name) { return find_column(row, name) != nullptr; }

Format prompt_completion_format(const Row& row) {
  const bool prompt = is_messages(*find_column(row, "prompt"));
  const bool completion = is_messages(*find_column(row, "completion"));
  if (prompt == completion) return prompt ? Format::prompt_completion_messages : Format::prompt_completion;
  fail_column(row, prompt ? "completion" : "prompt",
              fmt::format("a list of messages (as in '{}')", prompt ? "prompt" : "completion"));
}

// TRL asks an arbitrary one of these columns whether a row is conversational; here they must agree.
void require_agreement(const Row& row) {
  std::string_view first;
  for (const std::string_view name : {"messages", "prompt", "completion", "chosen", "rejected"}) {
    if (!has(row, name)) continue;
    if (first.empty()) first = name;
    const bool messages = is_messages(*find_column(row, first));
    if (is_messages(*find_column(row, name)) == messages) continue;
    fail_column(row, name, fmt::format("{} (as in '{}')", messages ? "a list of messages" : "text", first));
  }
}

}  // namespace

std::string_view format_name(Format format) {
  switch (format) {
    case Format::text:
      return "text";
    case Format::messages:
      return "messages";
    case Format::prompt_completion:
      return "prompt and completion as text";
    case Format::prompt_completion_messages:
      return "prompt and completion as messages";
    case Format::tokenized:
      return "input_ids";
  }
  return "";
}

bool is_messages(const base::Json& value) {
  return value.is_array() && !value.empty() && value[0].is_object() && value[0].contains("role");
}

const base::Json* find_column(const Row& row, std::string_view name) {
  const auto found = row.value.find(name);
  return found == row.value.end() || found->is_null() ? nullptr : &*found;
}

void fail_column(const Row& row, std::string_view name, std::string_view expected) {
  const auto found = row.value.find(name);
  if (found == row.value.end()) {
    fail(Status::format, "{}: no column '{}', but {} is expected; the row's columns: {}", row.where, name,
         expected, column_names(row));
  }
  fail(Status::format, "{}: column '{}' is {}, but {} is expected; the row's columns: {}", row.where, name,
       described(*found), expected, column_names(row));
}

void select_columns(Row& row, const std::vector<std::string>& names) {
  if (names.empty()) return;
  base::Json selected = base::Json::object();
  for (const std::string& name : names) {
    const auto found = row.value.find(name);
    if (found == row.value.end()) {
      fail(Status::format, "{}: no column '{}' (dataset_select_columns); the row's columns: {}", row.where,
           name, column_names(row));
    }
    selected[name] = std::move(*found);
  }
  row.value = std::move(selected);
}

void rename_columns(Row& row, const std::vector<std::pair<std::string, std::string>>& from_to) {
  for (size_t i = 0; i < from_to.size(); ++i) {
    const auto& [from, to] = from_to[i];
    const auto named = [&](size_t count, const std::string& name, auto member) {
      return std::any_of(from_to.begin(), from_to.begin() + static_cast<std::ptrdiff_t>(count),
                         [&](const auto& pair) { return pair.*member == name; });
    };
    using Pair = std::pair<std::string, std::string>;
    if (!row.value.contains(from)) {
      fail(Status::format, "{}: no column '{}' to rename to '{}' (dataset_columns); the row's columns: {}",
           row.where, from, to, column_names(row));
    }
    const bool stays = row.value.contains(to) && !named(from_to.size(), to, &Pair::first);
    if (stays || named(i, to, &Pair::second)) {
      fail(Status::format,
           "{}: column '{}' cannot be renamed to '{}' (dataset_columns): there is such a column; the row's "
           "columns: {}",
           row.where, from, to, column_names(row));
    }
  }
  std::vector<base::Json> moved;
  for (const auto& [from, to] : from_to) {
    moved.push_back(std::move(row.value[from]));
    row.value.erase(from);
  }
  for (size_t i = 0; i < moved.size(); ++i) row.value[from_to[i].second] = std::move(moved[i]);
}

void refuse_images(const Row& row) {
  for (const std::string_view column : {"image", "images"}) {
    if (has(row, column)) {
      fail(Status::unsupported, "{}: column '{}': training on images is not supported in this build",
           row.where, column);
    }
  }
}

Format format_of(const Row& row, const std::string& text_field) {
  refuse_images(row);
  if (has(row, "input_ids")) return Format::tokenized;
  if (has(row, "messages") && has(row, "prompt") && has(row, "completion")) require_agreement(row);
  if (has(row, "prompt") && has(row, "completion")) return prompt_completion_format(row);
  const base::Json* messages = find_column(row, "messages");
  if (messages != nullptr && is_messages(*messages)) return Format::messages;
  if (has(row, text_field)) return Format::text;
  if (messages != nullptr) fail_column(row, "messages", "a list of messages with 'role' and 'content'");
  if (row.value.contains(text_field)) fail_column(row, text_field, "text");
  if (has(row, "prompt")) fail_column(row, "completion", "what follows the prompt");
  if (row.value.contains("instruction") && row.value.contains("output"))
    fail_column(row, has(row, "output") ? "instruction" : "output", "text");
  fail(Status::format,
       "{}: no column to train on: '{}' (dataset_text_field), 'messages', 'prompt' and 'completion', "
       "'conversations' (from and value), 'instruction' and 'output' or 'input_ids' is expected; the row's "
       "columns: {} (dataset_columns renames them)",
       row.where, text_field, column_names(row));
}

const std::string& text_column(const Row& row, std::string_view name) {
  const base::Json* value = find_column(row, name);
  if (value == nullptr || !value->is_string()) fail_column(row, name, "text");
  return value->get_ref<const std::string&>();
}

namespace {
void refuse_media(const Row& row, std::string_view name, size_t index, const base::Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return;
  for (const base::Json& part : *content) {
    const std::string type = part.is_object() && part.contains("type") ? part["type"].dump() : "";
    for (const std::string_view medium : {"image", "video", "audio"}) {
      if (type.find(medium) == std::string::npos) continue;
      fail(Status::unsupported,
           "{}: column '{}': message {}: its content has a part of type {}; this build trains on text alone",
           row.where, name, index + 1, type);
    }
  }
}
}  // namespace

const base::Json& messages_column(const Row& row, std::string_view name) {
  constexpr std::string_view kExpected = "a list of messages with 'role' and 'content'";
  const base::Json* value = find_column(row, name);
  if (value == nullptr || !is_messages(*value)) fail_column(row, name, kExpected);
  for (size_t i = 0; i < value->size(); ++i) {
    const base::Json& message = (*value)[i];
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (role != message.end() && role->is_string()) {
      refuse_media(row, name, i, message);
      continue;
    }
    if (role != message.end()) {
      fail(Status::format, "{}: column '{}': message {}: its role is {}, but text is expected", row.where,
           name, i + 1, described(*role));
    }
    fail(Status::format, "{}: column '{}': message {} is {}, but an object with a 'role' is expected",
         row.where, name, i + 1, message.is_object() ? "an object without one" : described(message));
  }
  return *value;
}

namespace {
void require_length(const Row& row, std::string_view name, size_t length, size_t ids) {
  if (length == ids) return;
  fail(Status::format, "{}: column '{}' has {} elements and 'input_ids' has {}; the numbers must be equal",
       row.where, name, length, ids);
}

std::vector<int32_t> integers_column(const Row& row, std::string_view name, int64_t vocab_size,
                                     bool ignored) {
  const base::Json* value = find_column(row, name);
  if (value == nullptr || !value->is_array()) fail_column(row, name, "a list of token ids");
  std::vector<int32_t> out;
  out.reserve(value->size());
  for (const base::Json& item : *value) {
    const bool fits =
        item.is_number_integer() && (!item.is_number_unsigned() || item.get<uint64_t>() <= INT32_MAX);
    const int64_t id = fits ? item.get<int64_t>() : -1;
    if ((id < 0 || id >= vocab_size) && !(ignored && id == kIgnored)) {
      fail(Status::format, "{}: column '{}', element {}: {} is not a token id: 0 to {}{} is accepted",
           row.where, name, out.size() + 1, item.is_number() ? item.dump() : described(item), vocab_size - 1,
           ignored ? " or -100" : "");
    }
    out.push_back(static_cast<int32_t>(id));
  }
  return out;
}
}  // namespace

std::vector<int32_t> ids_column(const Row& row, std::string_view name, int64_t vocab_size) {
  return integers_column(row, name, vocab_size, false);
}

std::vector<int32_t> labels_column(const Row& row, std::string_view name, int64_t vocab_size, size_t count) {
  std::vector<int32_t> labels = integers_column(row, name, vocab_size, true);
  require_length(row, name, labels.size(), count);
  return labels;
}

std::vector<uint8_t> mask_column(const Row& row, std::string_view name, size_t count) {
  const base::Json* value = find_column(row, name);
  const bool bits =
      value != nullptr && value->is_array() && std::ranges::all_of(*value, [](const base::Json& bit) {
        return bit.is_boolean() || bit == 0 || bit == 1;
      });
  if (!bits) fail_column(row, name, "a list of 0 and 1");
  require_length(row, name, value->size(), count);
  std::vector<uint8_t> mask;
  mask.reserve(count);
  for (const base::Json& bit : *value) mask.push_back(bit == true || bit == 1 ? 1 : 0);
  return mask;
}

std::vector<int32_t> lengths_column(const Row& row, std::string_view name, size_t count) {
  const base::Json* value = find_column(row, name);
  const bool positive =
      value != nullptr && value->is_array() && std::ranges::all_of(*value, [](const base::Json& item) {
        return item.is_number_integer() && item.get<int64_t>() > 0 && item.get<int64_t>() <= INT32_MAX;
      });
  if (!positive) fail_column(row, name, "a list of the documents' lengths (integers > 0)");
  std::vector<int32_t> lengths = value->get<std::vector<int32_t>>();
  const int64_t sum = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  if (sum != static_cast<int64_t>(count)) {
    fail(Status::format, "{}: column '{}' adds up to {}, but 'input_ids' has {} elements", row.where, name,
         sum, count);
  }
  return lengths;
}

}  // namespace trl::data
