// Completions of some prompts in one call.
#pragma once
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generate/generator.h"

namespace trl::generate {

// Gets the tokens of each prompt, in their order. false: the prompt's completion ends.
class TokenSink {
 public:
  virtual bool on_token(int64_t prompt, int32_t id, float log_probability) noexcept = 0;

 protected:
  ~TokenSink() = default;
};

// As many blocks as these bytes hold, at least one.
inline Limits limits_for(const model::Model& model, at::ScalarType compute, int64_t bytes) {
  return {.blocks = std::max<int64_t>(1, bytes / block_bytes(model, {compute}))};
}

// Equal prompts that follow each other are one request. Throws Error if a completion fails.
inline void generate(const model::Model& model, const model::Adapter* adapter,
                     std::span<const std::span<const int32_t>> prompts, const engine::Sampling& sampling,
                     at::ScalarType compute, TokenSink& sink) {
  struct Passes final : engine::GenerationSink {
    explicit Passes(TokenSink& to) : sink(to) {}
    bool on_token(int64_t sequence, const engine::Token& token) noexcept override {
      return sink.on_token(sequence, token.id, token.log_probability);
    }
    void on_end(int64_t sequence, engine::Finish, std::string_view error) noexcept override {
      if (!error.empty()) failure = fmt::format("prompt {}, {}", sequence, error);
    }
    TokenSink& sink;
    std::string failure;
  } passes(sink);
  Generator generator(model, compute, limits_for(model, compute, int64_t{512} << 20));
  for (size_t i = 0, count; i < prompts.size(); i += count) {
    count = 1;
    while (i + count < prompts.size() && std::ranges::equal(prompts[i], prompts[i + count])) ++count;
    generator.add({.ids = {prompts[i].begin(), prompts[i].end()},
                   .sampling = sampling,
                   .adapter = adapter,
                   .count = static_cast<int64_t>(count),
                   .stream = i});
  }
  while (passes.failure.empty() && generator.step(passes)) {
  }
  if (!passes.failure.empty()) fail(Status::invalid_argument, "{}", passes.failure);
}

}  // namespace trl::generate
