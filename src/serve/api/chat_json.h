// Answers and events of /v1/chat/completions.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "serve/api/sinks.h"
#include "serve/api/tool_calls.h"

namespace trl::serve {

struct ChatRequest {
  std::string id, model, role;
  int64_t created = 0;
  std::string prompt;  // as the template made it
  Ids ids;             // its tokens
  Sampling sampling;
  std::shared_ptr<const MessageReader> reader;  // null: answers are text
  bool prompt_text = false;                     // in the answer, too
  bool usage = false, usage_always = false;     // of streams: in a last event; in each
};

Answer chat_answer(const ChatRequest& request, const ServedModel& model,
                   const std::vector<Completion>& completions);
std::unique_ptr<StreamFormat> chat_format(ChatRequest request, const ServedModel& model);

}  // namespace trl::serve
