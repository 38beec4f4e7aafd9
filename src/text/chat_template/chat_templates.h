// The chat templates of a tokenizer, by name, and which of them a call takes.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "base/json/json.h"
#include "text/chat_template/chat_template.h"

namespace trl::text {

// Concurrent on const.
class ChatTemplates {
 public:
  explicit ChatTemplates(const std::map<std::string, std::string>& sources);  // one alone is "default"
  // As in transformers' get_chat_template: "tool_use" where tools are given (a list, if only an empty
  // one), else "default". Null: there is none for such a call, and why_none() says what there is.
  const ChatTemplate* find(const base::Json& tools) const;
  std::string why_none() const;

 private:
  std::optional<ChatTemplate> default_;
  std::optional<ChatTemplate> tool_use_;
  std::string names_;
};

}  // namespace trl::text
