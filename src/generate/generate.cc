#include "generate/generate.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "generate/generator.h"
#include "generate/sampling.h"

namespace trl::generate {

namespace {

// Bytes of keys and values that a call may hold. A single sequence gets what it needs.
constexpr int64_t kCacheBytes = int64_t{512} << 20;

class PromptSink final : public Receiver {
 public:
  explicit PromptSink(engine::TokenSink& sink) : sink_(sink) {}
  bool on_token(int64_t sequence, const Token& token) noexcept override {
    return sink_.on_token(sequence, token);
  }
  void on_end(int64_t sequence, Finish how, const std::string& error) noexcept override {
    if (how == Finish::failed && failed_ < 0) failed_ = sequence, error_ = error;
  }
  void check() const {
    if (failed_ >= 0) fail(Status::invalid_argument, "prompt {}, {}", failed_, error_);
  }

 private:
  engine::TokenSink& sink_;
  int64_t failed_ = -1;
  std::string error_;
};

}  // namespace

void generate(const model::Model& model, const model::Adapter* adapter,
              std::span<const std::span<const int32_t>> prompts, const engine::Sampling& sampling,
              at::ScalarType compute, engine::TokenSink& sink) {
  check_sampling(sampling, model.config().vocab_size);
  int64_t longest = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) fail(Status::invalid_argument, "prompt {} is empty; give at least one token", i);
    longest = std::max(longest, std::ssize(prompts[i]));
  }
  Limits limits = limits_for(model, compute, kCacheBytes);
  limits.blocks = std::max(limits.blocks, Scheduler::blocks_of(longest + sampling.max_new_tokens));
  Generator generator(model, compute, limits);
  // Equal prompts that follow each other are one request.
  for (size_t i = 0, count; i < prompts.size(); i += count) {
    count = 1;
    while (i + count < prompts.size() && std::ranges::equal(prompts[i], prompts[i + count])) ++count;
    generator.add({.ids = {prompts[i].begin(), prompts[i].end()},
                   .sampling = sampling,
                   .adapter = adapter,
                   .count = static_cast<int64_t>(count),
                   .stream = i});
  }
  PromptSink receiver(sink);
  while (generator.step(receiver)) receiver.check();
  receiver.check();
}

}  // namespace trl::generate
