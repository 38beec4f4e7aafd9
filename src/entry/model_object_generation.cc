// The completions and the scores of a model, and the caches that its generators share.
#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "entry/boundary.h"
#include "entry/generator_object.h"
#include "entry/model_object.h"
#include "generate/sampling.h"
#include "train/scoring/scores.h"

namespace trl::entry {

// The cache that generators of this kind share; made anew if there is none.
std::shared_ptr<generate::Cache> ModelObject::cache_for(const generate::CacheKind& kind, int64_t bytes) {
  std::erase_if(caches_, [](const auto& cache) { return cache.expired(); });
  for (const auto& known : caches_) {
    const std::shared_ptr<generate::Cache> cache = known.lock();
    if (cache == nullptr || cache->kind != kind) continue;  // its last generator may have gone meanwhile
    const std::lock_guard lock(cache->in_use);
    cache->raise_limit(bytes);
    return cache;
  }
  auto cache = std::make_shared<generate::Cache>(*model_, kind, bytes);
  if (cache->narrow() != nullptr)
    HostLog(host_).info("generate", "generation_dtype: {}", cache->narrow()->summary());
  caches_.push_back(cache);
  return cache;
}

int32_t ModelObject::check_sampling(const engine::Sampling& sampling, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    generate::check_sampling(sampling, model_->config().vocab_size);
    adapter_of(sampling);
  });
}

int32_t ModelObject::create_generator(const engine::GeneratorSpec& spec, engine::Generator** out,
                                      engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    if (model_->config().labels > 0)
      fail(Status::unsupported, "{}: a reward model scores text and cannot generate it", source_.name());
    *out = new GeneratorObject(host_, *this, spec, cache_for(cache_kind(*model_, spec), spec.cache_bytes));
  });
}

std::unique_ptr<train::CompletionWriter> ModelObject::completion_writer(const engine::RolloutSpec& spec) {
  const engine::GeneratorSpec& how = spec.generator;
  auto generator = std::make_unique<generate::Generator>(
      *model_, how, cache_for(cache_kind(*model_, how), how.cache_bytes));
  return std::make_unique<train::CompletionWriter>(std::move(generator), model_->adapters().trained(),
                                                   how.sleeps);
}

int32_t ModelObject::score(const engine::ScoreSpec& spec, float* scores, engine::ErrorSink& error) noexcept {
  return compute(host_, path_, error, [&] {
    if (model_->config().labels != 1)
      fail(Status::unsupported,
           "{}: a language model gives no scores; give a reward model: a classifier with one label, or an "
           "adapter that makes one of its model",
           source_.name());
    const at::ScalarType type = model_->compute(spec.bf16 ? at::kBFloat16 : at::kFloat);
    const std::vector<float> all =
        train::scores(*model_, spec.texts, type, spec.batch, spec.at_end ? -1 : train::padding_of(*model_));
    std::ranges::copy(all, scores);
  });
}

}  // namespace trl::entry
