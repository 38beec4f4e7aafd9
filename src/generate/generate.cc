#include "generate/generate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "generate/philox.h"
#include "generate/sampling.h"
#include "tensor/device.h"

namespace trl::generate {

namespace {

// Positions to make room for at first; a cache grows as needed, so a generous max_new_tokens costs nothing
// before it is used.
constexpr int64_t kFirstRoom = 256;

void generate_one(const model::Model& model, const model::Adapter* adapter, int64_t prompt,
                  std::span<const int32_t> ids, const engine::Sampling& sampling, at::ScalarType compute,
                  engine::TokenSink& sink) {
  if (ids.empty()) fail(Status::invalid_argument, "prompt {} is empty; give at least one token", prompt);
  std::vector<int32_t> sequence(ids.begin(), ids.end());
  const int64_t room = static_cast<int64_t>(ids.size()) + std::min(sampling.max_new_tokens, kFirstRoom);
  const auto cache = model.new_cache(room, adapter);
  for (int64_t t = 0; t < sampling.max_new_tokens; ++t) {
    const model::Output output =
        t == 0 ? model.extend(*cache, sequence, compute) : model.extend(*cache, {sequence.back()}, compute);
    const at::Tensor row = tensor::on_host(model.logits(output, compute));
    const std::span<float> logits(row.data_ptr<float>(), static_cast<size_t>(row.numel()));
    if (std::any_of(logits.begin(), logits.end(), [](float v) { return std::isnan(v); })) {
      fail(Status::invalid_argument, "prompt {}, token {}: the model's output is not a number", prompt, t);
    }
    process_logits(logits, sequence, sampling);
    const int32_t id = sampling.temperature == 0
                           ? choose_greedy(logits)
                           : choose_sampled(logits, uniform(sampling.seed, static_cast<uint64_t>(prompt),
                                                            static_cast<uint64_t>(t)));
    sequence.push_back(id);
    if (!sink.on_token(prompt, id, sampling.log_probabilities ? log_probability(logits, id) : 0)) return;
    if (std::find(sampling.stop_ids.begin(), sampling.stop_ids.end(), id) != sampling.stop_ids.end()) return;
  }
}

}  // namespace

void generate(const model::Model& model, const model::Adapter* adapter,
              std::span<const std::span<const int32_t>> prompts, const engine::Sampling& sampling,
              at::ScalarType compute, engine::TokenSink& sink) {
  check_sampling(sampling);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < prompts.size(); ++i) {
    generate_one(model, adapter, static_cast<int64_t>(i), prompts[i], sampling, compute, sink);
  }
}

}  // namespace trl::generate
