#include "data/row/conversions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "data/row/columns.h"

namespace trl::data {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kShareGptRoles = {
    {{"human", "user"}, {"gpt", "assistant"}, {"observation", "tool"}, {"function_call", "assistant"}}};

bool is_from_value(const base::Json& value) {
  return value.is_array() && !value.empty() && value[0].is_object() && value[0].contains("from") &&
         value[0].contains("value");
}

// Parses a text as JSON; a text that is not JSON stays as it is.
base::Json unpacked(const base::Json& value) {
  if (!value.is_string()) return value;
  try {
    return base::parse_exact_json(value.get_ref<const std::string&>(), "");
  } catch (const Error&) {
    return value;
  }
}

bool is_call(const base::Json& call) {
  return call.is_object() && call.contains("name") && call["name"].is_string() && call.contains("arguments");
}

// Returns one call as a list, or a list of calls; null: the value is neither.
base::Json tool_calls(const base::Json& value) {
  base::Json calls = unpacked(value), out = base::Json::array();
  if (!calls.is_array()) calls = base::Json::array({std::move(calls)});
  for (const base::Json& call : calls) {
    if (!is_call(call)) return nullptr;
    out.push_back({{"type", "function"},
                   {"function", {{"name", call["name"]}, {"arguments", unpacked(call["arguments"])}}}});
  }
  return out.empty() ? base::Json() : out;
}

base::Json take_key(base::Json& message, const char* key) {
  base::Json value = std::move(message[key]);
  message.erase(key);
  return value;
}

void convert_message(const Row& row, std::string_view column, size_t index, base::Json& message) {
  base::Json from;
  if (message.contains("from")) {
    from = take_key(message, "from");
    message["role"] = from;
    for (const auto& [name, role] : kShareGptRoles)
      if (from == name) message["role"] = role;
  }
  if (!message.contains("value")) return;
  const base::Json value = take_key(message, "value");
  if (from != "function_call") {
    message["content"] = value;
    return;
  }
  message["content"] = "";
  message["tool_calls"] = tool_calls(value);
  if (!message["tool_calls"].is_null()) return;
  fail(Status::format,
       "{}: column '{}': message {}: the value of a function_call is {}, but JSON of a call with 'name' and "
       "'arguments', or of a list of such calls, is expected",
       row.where, column, index + 1,
       value.dump(-1, ' ', false, base::Json::error_handler_t::replace).substr(0, 200));
}

}  // namespace

bool is_alpaca(const Row& row, const std::string& text_field) {
  constexpr std::array<std::string_view, 6> kOthers = {"input_ids",  "messages", "prompt",
                                                       "completion", "chosen",   "rejected"};
  const auto has = [&](std::string_view name) { return find_column(row, name) != nullptr; };
  return has("instruction") && has("output") && !has(text_field) && std::ranges::none_of(kOthers, has);
}

void convert_alpaca(Row& row, const std::string& text_field, const text::Tokenizer& tokenizer) {
  if (!is_alpaca(row, text_field)) return;
  std::string prompt = text_column(row, "instruction"), completion = text_column(row, "output");
  if (find_column(row, "input") != nullptr) {
    const std::string& input = text_column(row, "input");
    if (!input.empty()) prompt += "\n" + input;
  }
  for (const char* name : {"instruction", "input", "output"}) row.value.erase(name);
  const bool messages = tokenizer.chat_templates().contains("default");
  const auto said = [&](const char* role, std::string text) -> base::Json {
    if (!messages) return text;
    return base::Json::array({{{"role", role}, {"content", std::move(text)}}});
  };
  row.value["prompt"] = said("user", std::move(prompt));
  row.value["completion"] = said("assistant", std::move(completion));
}

void convert_from_value(Row& row, std::string_view column) {
  const auto messages = row.value.find(column);
  if (messages == row.value.end() || !is_from_value(*messages)) return;
  for (size_t i = 0; i < messages->size(); ++i)
    if ((*messages)[i].is_object()) convert_message(row, column, i, (*messages)[i]);
}

void convert_conversations(Row& row) {
  const auto conversations = row.value.find("conversations");
  if (conversations == row.value.end() || !is_from_value(*conversations)) return;
  convert_from_value(row, "conversations");
  row.value["messages"] = take_key(row.value, "conversations");
}

}  // namespace trl::data
