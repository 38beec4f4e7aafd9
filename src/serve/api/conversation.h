// Conversations of requests: messages, tools and what else a chat template takes.
#pragma once
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "serve/api/fields.h"
#include "serve/api/prompt.h"
#include "serve/context.h"

namespace trl::serve {

// The fields of a request that the chat template gets besides the messages.
struct TemplateFields {
  base::Json json = base::Json::object();  // as trl_tokenizer_apply_chat_template takes it, without messages
  base::Json tools;                        // a list, or null
  std::string chat_template;               // the request's own; empty: the model's
  bool adds_prompt = true, special_tokens = false;
};

// Reads tools, chat_template, chat_template_kwargs, documents, reasoning_effort, add_generation_prompt,
// continue_final_message and add_special_tokens. Throws Refusal(400).
TemplateFields read_template_fields(Fields& fields, const ServerOptions& options);

// Returns the messages as templates take them: a text as the content of each, arguments of calls as objects.
// name: of the field. Throws Refusal(400).
base::Json read_messages(const base::Json* messages, std::string_view name);

struct Prompt {
  std::string text;
  Ids ids;
};
// Throws Refusal(400), also for what the template itself refuses.
Prompt render_prompt(const base::Json& messages, const TemplateFields& fields, const ServedModel& model);

}  // namespace trl::serve
