// From a prompt to its completion: ids, what the model adds to them, and their text.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capi/tokenizer_handle.h"
#include "engine/engine.h"
#include "trl/trl.h"

namespace trl::capi {

// Of a text as it stands. If it spells out the begin token, the tokenizer adds nothing by itself.
std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text);
// Of messages in the chat template, up to where the answer begins. tools: a list, or null.
std::vector<int32_t> conversation_ids(const Tokenizer& tokenizer, const base::Json& messages,
                                      const base::Json& tools = nullptr);

struct Completion {
  std::vector<int32_t> ids;
  std::string text;
  const char* finish_reason;  // a literal
};

// sampling: its stop_ids are those of the model and of the tokenizer. stops: texts at which a completion
// ends. on_token: or null.
std::vector<Completion> complete(engine::Model& model, const Tokenizer& tokenizer,
                                 std::span<const std::vector<int32_t>> prompts, engine::Sampling sampling,
                                 const std::vector<std::string>& stops, trl_token_fn on_token,
                                 void* user_data);

}  // namespace trl::capi
