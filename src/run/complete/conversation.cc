#include "run/complete/conversation.h"

#include <utility>

#include "base/error.h"
#include "data/row/columns.h"
#include "data/row/from_value.h"
#include "data/row/row_text.h"

namespace trl::run {

namespace {

base::Json parsed(std::string_view text) {
  if (!text.starts_with('{') && !text.starts_with('[')) return nullptr;
  try {
    return base::parse_exact_json(text, "prompt");
  } catch (const Error&) {
    return nullptr;
  }
}

void drop_answers(base::Json& messages) {
  const auto is_answer = [](const base::Json& message) {
    return message.is_object() && message.contains("role") && message["role"] == "assistant";
  };
  while (messages.size() > 1 && is_answer(messages.back())) messages.erase(messages.size() - 1);
}

base::Json tools_of(const data::Row& row) {
  const base::Json* tools = data::find_column(row, "tools");
  if (tools == nullptr) return nullptr;
  return tools->is_string() ? base::parse_exact_json(tools->get_ref<const std::string&>(), "tools") : *tools;
}

}  // namespace

Conversation conversation_of(std::string_view prompt) {
  base::Json given = parsed(prompt);
  if (data::is_messages(given)) {
    const data::Row row{{{"messages", std::move(given)}}, "prompt"};
    return {data::messages_column(row, "messages"), nullptr, nullptr};
  }
  if (given.is_object()) {
    data::Row row{std::move(given), "prompt"};
    data::convert_conversations(row);
    data::convert_from_value(row, "prompt");
    for (const char* name : {"prompt", "messages"}) {
      const base::Json* found = data::find_column(row, name);
      if (found == nullptr || !data::is_messages(*found)) continue;
      base::Json messages = data::messages_column(row, name);
      if (std::string_view(name) == "messages") drop_answers(messages);
      text::RenderOptions options;
      options.tools = tools_of(row);
      data::read_template_variables(row, options);
      return {std::move(messages), std::move(options.tools), std::move(options.variables)};
    }
  }
  return {base::Json::array({base::Json{{"role", "user"}, {"content", prompt}}}), nullptr, nullptr};
}

}  // namespace trl::run
