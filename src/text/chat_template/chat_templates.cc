#include "text/chat_template/chat_templates.h"

#include <fmt/format.h>

namespace trl::text {

ChatTemplates::ChatTemplates(const std::map<std::string, std::string>& sources) {
  for (const auto& [name, source] : sources) {
    names_ += (names_.empty() ? "'" : ", '") + name + "'";
    if (name == "default") default_.emplace(source);
    if (name == "tool_use") tool_use_.emplace(source);
  }
}

const ChatTemplate* ChatTemplates::find(const base::Json& tools) const {
  if (!tools.is_null() && tool_use_) return &*tool_use_;
  return default_ ? &*default_ : nullptr;
}

std::string ChatTemplates::why_none() const {
  if (names_.empty()) return "the tokenizer has no chat template";
  return fmt::format("the tokenizer has the chat templates {}, but none named 'default'", names_);
}

}  // namespace trl::text
