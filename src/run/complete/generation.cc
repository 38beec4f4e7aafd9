#include "run/complete/generation.h"

#include "base/error.h"
#include "run/complete/complete.h"
#include "run/complete/conversation.h"

namespace trl::run {

engine::Sampling sampling_of(const config::Config& options, const std::string& adapter) {
  engine::Sampling sampling;
  sampling.max_new_tokens = options.get_int("generate.max_new_tokens");
  sampling.temperature = options.get_double("generate.temperature");
  sampling.top_p = options.get_double("generate.top_p");
  sampling.top_k = options.get_int("generate.top_k");
  sampling.min_p = options.get_double("generate.min_p");
  sampling.repetition_penalty = options.get_double("generate.repetition_penalty");
  sampling.seed = static_cast<uint64_t>(options.get_int("generate.seed"));
  sampling.adapter = adapter;
  return sampling;
}

namespace {

// Returns the number of completions of each prompt.
int64_t sequences(const config::Config& options) {
  constexpr std::string_view kKey = "generate.num_return_sequences";
  const int64_t count = options.get_int(kKey);
  if (count > 1 && options.get_double("generate.temperature") == 0)
    fail_key(kKey, "{}: {} needs generate.temperature above 0: greedy completions of one prompt are equal",
             kKey, count);
  return count;
}

// Returns the ids of a prompt in the chat template; the prompt's own system message replaces `system`.
std::vector<int32_t> chat_ids(const Tokenizer& tokenizer, std::string_view prompt,
                              const std::optional<std::string>& system) {
  auto [messages, tools, variables] = conversation_of(prompt);
  if (system && (messages.empty() || messages[0].value("role", "") != "system"))
    messages.insert(messages.begin(), base::Json{{"role", "system"}, {"content", *system}});
  return conversation_ids(tokenizer, messages, tools, variables);
}

}  // namespace

std::vector<std::vector<int32_t>> prompt_ids(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> prompts,
                                             const config::Config& options) {
  const bool chat = options.get_bool("generate.chat");
  const std::optional<std::string> system = options.get_text("generate.system");
  if (system && !chat)
    fail_key("generate.system",
             "generate.system: it needs generate.chat: true: a prompt as it stands has no messages");
  const int64_t times = sequences(options);
  std::vector<std::vector<int32_t>> all;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t> ids =
        chat ? chat_ids(tokenizer, prompts[i], system) : text_ids(tokenizer, prompts[i]);
    if (ids.empty())
      fail(Status::invalid_argument, "prompts[{}] {}has no token: give a text to complete", i,
           prompts[i].empty() ? "is empty and " : "");
    all.insert(all.end(), static_cast<size_t>(times), ids);
  }
  return all;
}

}  // namespace trl::run
