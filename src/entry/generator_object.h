// engine::Generator over generate/.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "engine/beside.h"
#include "entry/model_object.h"
#include "generate/generator.h"
#include "model/model.h"

namespace trl::entry {

using generate::cache_kind;

class GeneratorObject final : public engine::Generator {
 public:
  // model: outlives this.
  GeneratorObject(engine::Host& host, const ModelObject& model, const engine::GeneratorSpec& spec,
                  std::shared_ptr<generate::Cache> cache);

  void release() noexcept override { delete this; }
  int32_t add(const engine::GenerationRequest& request, int64_t* first,
              engine::ErrorSink& error) noexcept override;
  int32_t step(engine::GenerationSink& sink, engine::ErrorSink& error) noexcept override;
  int32_t extend(int64_t sequence, std::span<const int32_t> ids, int64_t max_new_tokens,
                 engine::ErrorSink& error) noexcept override;
  void end(int64_t sequence) noexcept override;
  bool idle() noexcept override { return generator_.idle(); }
  int32_t release_memory(engine::ErrorSink& error) noexcept override;
  engine::GenerationUse use() noexcept override { return generator_.use(); }
  // Beside training: see engine::Beside.
  engine::UsedWeights weights_of(int64_t sequence) const noexcept;

 private:
  // The weights of a sequence beside training: those of its next token, of its first and of its last.
  struct Weights {
    const model::Adapter* adapter;
    bool keeps;  // it may be continued
    int64_t next = -1, first = -1, last = -1;
  };
  class Noted;  // a sink that notes them
  ~GeneratorObject() = default;
  bool step_beside(engine::GenerationSink& sink);
  bool follows(const model::Adapter* adapter) const;
  void warn_of_length(int64_t tokens, int64_t max_new_tokens);
  engine::Host& host_;
  const ModelObject& object_;
  const model::Model& model_;
  generate::Generator generator_;
  const bool sleeps_;  // copies of weights go back with keys and values
  bool warned_ = false;
  std::map<int64_t, Weights> weights_;  // beside training: of the sequences that are not over
};

}  // namespace trl::entry
