// Requests to a generator, step by step, as a host with its own loop makes them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/run.h"

namespace host {

inline size_t add(trl_generator* g, std::string_view prompt, const Settings& options) {
  size_t first = 99;
  Error error;
  EXPECT_EQ(
      trl_generator_add(g, prompt.data(), prompt.size(), nullptr, 0, config(options).get(), &first, error),
      TRL_OK)
      << error.message();
  return first;
}

inline void finish(trl_generator* g) {
  Error error;
  trl_status status = TRL_OK;
  while (status == TRL_OK) status = trl_generator_step(g, nullptr, nullptr, error);
  EXPECT_EQ(status, TRL_END) << error.message();
}

// What trl_completions_json has of one completion.
inline nlohmann::json taken(trl_generator* g, size_t number) {
  trl_completions* made = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_take(g, number, 1, &made, error), TRL_OK) << error.message();
  const Completions owned(made);
  if (made == nullptr) return nullptr;
  const nlohmann::json json = nlohmann::json::parse(trl_completions_json(made, 0, nullptr));
  size_t count = 0;
  const int32_t* const ids = trl_completions_tokens(made, 0, &count);
  EXPECT_EQ(json["token_ids"], nlohmann::json(std::vector<int32_t>(ids, ids + count)));
  size_t size = 0;
  const char* const text = trl_completions_text(made, 0, &size);  // may have NUL in it
  EXPECT_EQ(json["text"], std::string(text, size));
  return json;
}

}  // namespace host
