// What a prompt of a chat holds.
#pragma once
#include <string_view>

#include "base/json/json.h"

namespace trl::run {

struct Conversation {
  base::Json messages;
  base::Json tools;  // null: none
};

// Of a prompt that is JSON: of a list of messages, or of a row that has one in messages (the answers at its
// end are left out), prompt or conversations, with its tools. Any other prompt is what the user says. Throws
// Error(format).
Conversation conversation_of(std::string_view prompt);

}  // namespace trl::run
