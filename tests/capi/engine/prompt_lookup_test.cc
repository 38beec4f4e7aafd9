// Prompt lookup through the C functions: the same completions as without it, whatever ends them.
#include "engine/requests.h"
#include "engine/rewarded.h"

namespace {

using host::add;
using host::Error;
using host::finish;
using host::Json;
using host::Settings;
using host::taken;
using host::with;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

const char* const kLookup =
    "{method: ngram, num_speculative_tokens: 6, prompt_lookup_max: 3, prompt_lookup_min: 1}";

// All completions of some requests at once.
std::vector<Json> completions(const std::vector<Settings>& requests, const Settings& more) {
  const auto model = host::open_model(host::golden("models/qwen2"), with(more, {{"dtype", "float32"}}));
  const auto g = host::generator_of(model.get());
  std::vector<size_t> numbers;
  for (const Settings& request : requests)
    numbers.push_back(add(g.get(), "row 3, row 3, row 3", with(more, request)));
  finish(g.get());
  std::vector<Json> all;
  for (const size_t number : numbers) all.push_back(taken(g.get(), number));
  return all;
}

TEST(PromptLookup, CompletionsAreTheSame) {
  NEED_MODEL();
  const Settings long_one = {{"generate.max_new_tokens", "60"}};
  const std::string text = completions({long_one}, {})[0]["text"];
  ASSERT_GT(text.size(), 30u);
  const std::vector<Settings> requests = {
      long_one, with(long_one, {{"generate.stop", Json::array({text.substr(20, 3)}).dump()}}),
      with(long_one, {{"generate.repetition_penalty", "1.2"}, {"generate.logprobs", "2"}}),
      with(long_one, {{"generate.temperature", "1"}, {"generate.allowed_token_ids", "[70, 71, 72]"}}),
      with(long_one, {{"generate.no_repeat_ngram_size", "3"}, {"generate.presence_penalty", "0.5"}})};
  for (const Settings& own : {Settings{}, {{"kv_cache_dtype", "int8"}}}) {
    const std::vector<Json> want = completions(requests, own);
    EXPECT_EQ(want[1]["finish_reason"], "stop_string");
    EXPECT_EQ(completions(requests, with(own, {{"generate.speculative_config", kLookup}})), want);
    const std::string kwargs = std::string("{speculative_config: ") + kLookup + "}";
    EXPECT_EQ(completions(requests, with(own, {{"generate.generation_kwargs", kwargs}})), want);
  }
}

TEST(PromptLookup, WhatItHasNotIsRefused) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = host::generator_of(model.get());
  for (const auto& [value, why] : std::vector<std::pair<const char*, const char*>>{
           {"{method: eagle, num_speculative_tokens: 3}", "give ngram"},
           {"{num_speculative_tokens: 3}", "method: ngram"},
           {"{method: ngram}", "num_speculative_tokens"},
           {"{method: ngram, num_speculative_tokens: 33}", "1 to 32"},
           {"{method: ngram, num_speculative_tokens: 3, prompt_lookup_max: 0}", "1 to 64"},
           {"{method: ngram, num_speculative_tokens: 3, prompt_lookup_max: 2, prompt_lookup_min: 3}",
            "at most"},
           {"{method: ngram, num_speculative_token: 3}", "did you mean num_speculative_tokens?"}}) {
    size_t first = 0;
    Error error;
    const Settings options = {{"generate.speculative_config", value}};
    EXPECT_EQ(trl_generator_add(g.get(), "row", 3, nullptr, 0, host::config(options).get(), &first, error),
              TRL_E_INVALID_CONFIG)
        << value;
    EXPECT_NE(error.message().find(why), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("generate.speculative_config"), std::string::npos) << error.message();
  }
}

TEST(PromptLookup, ARunWritesTheSameCompletions) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto recorded = [&](const char* name, const char* kwargs) {
    const std::string file = scratch / (std::string(name) + ".jsonl");
    host::Rewarded run(host::grpo(scratch / name, {{"max_completion_length", "24"},
                                                   {"record_rollouts", file},
                                                   {"generation_kwargs", kwargs}}),
                       host::reward_all);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    return host::read_file(file);
  };
  const std::string kwargs = std::string("{speculative_config: ") + kLookup + "}";
  EXPECT_EQ(recorded("lookup", kwargs.c_str()), recorded("plain", "null"));
}

}  // namespace
