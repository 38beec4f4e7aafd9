// The chat templates of a tokenizer, by name, and the choice of one for a call.
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
  explicit ChatTemplates(const std::map<std::string, std::string>& sources);  // a single one is "default"
  // Chooses as transformers' get_chat_template does: "tool_use" if tools are given (a list, even an empty
  // one), else "default". Null: no template fits such a call, and why_none() says which exist.
  const ChatTemplate* find(const base::Json& tools) const;
  std::string why_none() const;

 private:
  std::optional<ChatTemplate> default_;
  std::optional<ChatTemplate> tool_use_;
  std::string names_;
};

}  // namespace trl::text
