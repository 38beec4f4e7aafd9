// Reads a prompt of a chat.
#pragma once
#include <string_view>

#include "base/json/json.h"

namespace trl::run {

struct Conversation {
  base::Json messages;
  base::Json tools;      // null: none
  base::Json variables;  // chat_template_kwargs; null: none
};

// Reads a prompt that is JSON: a list of messages, or a row with such a list in messages (the answers at its
// end are left out), prompt or conversations, with its tools and chat_template_kwargs. Any other prompt is
// the user's message. Throws Error(format).
Conversation conversation_of(std::string_view prompt);

}  // namespace trl::run
