// engine::Generator over generate/.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "engine/engine.h"
#include "generate/generator.h"
#include "model/model.h"

namespace trl::entry {

using generate::cache_kind;

// The adapter that a request generates with; null: none. Throws Error if there is none of that name.
const model::Adapter* adapter_of(const model::Model& model, const engine::Sampling& sampling);

class GeneratorObject final : public engine::Generator {
 public:
  GeneratorObject(engine::Host& host, const model::Model& model, const engine::GeneratorSpec& spec,
                  std::shared_ptr<generate::Cache> cache);

  void release() noexcept override { delete this; }
  int32_t add(const engine::GenerationRequest& request, int64_t* first,
              engine::ErrorSink& error) noexcept override;
  int32_t step(engine::GenerationSink& sink, engine::ErrorSink& error) noexcept override;
  int32_t extend(int64_t sequence, std::span<const int32_t> ids, int64_t max_new_tokens,
                 engine::ErrorSink& error) noexcept override;
  void end(int64_t sequence) noexcept override { generator_.end(sequence); }
  bool idle() noexcept override { return generator_.idle(); }
  int32_t release_memory(engine::ErrorSink& error) noexcept override;
  engine::GenerationUse use() noexcept override { return generator_.use(); }

 private:
  ~GeneratorObject() = default;
  void warn_of_length(int64_t tokens, int64_t max_new_tokens);
  engine::Host& host_;
  const model::Model& model_;
  generate::Generator generator_;
  const bool sleeps_;  // copies of weights go back with keys and values
  bool warned_ = false;
};

}  // namespace trl::entry
