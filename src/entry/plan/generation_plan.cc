#include "entry/plan/generation_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/tensor_message.h"
#include "entry/generator_object.h"
#include "kernels/kinds.h"
#include "memory/plan.h"

namespace trl::entry {

namespace {

using base::MemoryKind;

constexpr const char *kWeights = "weights converted for generation", *kCopies = "copies for generation",
                     *kKeys = "keys and values of generation", *kLogits = "logits of generation",
                     *kWork = "work of generation";

// Counts blocks and their memory while a sequence that ends still has its own.
class Watch final : public engine::GenerationSink {
 public:
  explicit Watch(const generate::Generator& generator) : generator_(generator) {}
  bool on_token(int64_t, const engine::Token&) noexcept override {
    const engine::GenerationUse use = generator_.use();
    blocks = std::max(blocks, use.blocks);
    bytes = std::max(bytes, use.bytes);
    return true;
  }
  void on_end(int64_t, engine::Finish, std::string_view) noexcept override {}
  int64_t blocks = 0, bytes = 0;  // at most

 private:
  const generate::Generator& generator_;
};

// Throws Error(invalid_config) unless one sequence fits.
void need_room(const telemetry::RunPlan::Generation& all, std::string_view keys) {
  if (all.sequences_that_fit > 0) return;
  const int64_t tokens = all.prompt_tokens + all.max_new_tokens;
  const int64_t wanted = generate::Scheduler::blocks_of(tokens - 1) * all.block_bytes;
  fail_key("kv_cache_memory",
           "kv_cache_memory: {} bytes are allowed, and keys and values of one sequence of {} tokens take {}: "
           "allow more, or give fewer tokens ({})",
           all.kv_limit_bytes, tokens, wanted, keys);
}

// Returns the bytes that a server takes to replace all weights that are held as numbers (serve/weights): the
// message of a client, and the old numbers.
int64_t update_bytes(const model::Model& model) {
  int64_t bytes = 0;
  for (const tensor::Parameter* const one : model.parameters()) {
    if (one->encoded() != nullptr) continue;
    const int64_t own = one->count() * static_cast<int64_t>(c10::elementSize(one->dtype()));
    bytes += static_cast<int64_t>(base::tensor_message::aligned(static_cast<size_t>(own)));
  }
  return 2 * bytes;
}

// A stretch as if it were all: the blocks that were taken in it and have a term, and all that exist in it.
struct Plans {
  memory::Plan own, everything;
};

// term: of a block that was taken in the stretch; empty: none.
template <typename TermOf>
Plans plans_of(const tensor::Rehearsal& rehearsal, const Stretch& stretch, const TermOf& term) {
  const int64_t events = stretch.to - stretch.from;
  std::vector<memory::Holding> holdings, own;
  for (const tensor::Taken& taken : rehearsal.taken()) {
    if (taken.to <= stretch.from || taken.from >= stretch.to) continue;
    holdings.push_back({taken.from >= stretch.from ? term(taken) : std::string(), taken.bytes,
                        std::max<int64_t>(0, taken.from - stretch.from), taken.to - stretch.from});
    if (!holdings.back().term.empty()) own.push_back(holdings.back());
  }
  return {memory::plan(own, events, 1), memory::plan(holdings, events, 1)};
}

}  // namespace

std::string generation_term(const tensor::Taken& taken) {
  if (taken.stage == generate::kCopiesStage) return kCopies;
  if (taken.stage == generate::kKeysStage) return kKeys;
  if (taken.stage == generate::kLogitsStage) return kLogits;
  if (taken.stage != generate::kGenerationStage) return {};
  return taken.kind == MemoryKind::weights ? kWeights : kWork;
}

std::string_view with_generation(std::string_view stage) {
  using namespace generate;
  const bool part = stage == kCopiesStage || stage == kKeysStage || stage == kLogitsStage;
  return part ? kGenerationStage : stage;
}

std::shared_ptr<generate::Cache> kept_cache(const model::Model& model, const engine::PlanSpec& spec) {
  const engine::GeneratorSpec& own = spec.generator;
  if (spec.rollouts.prompts.empty() || own.weights.empty() || own.sleeps) return nullptr;
  return std::make_shared<generate::Cache>(model, cache_kind(model, own), own.cache_bytes);
}

RehearsedGeneration rehearse_generation(const model::Model& model, const engine::GeneratorSpec& spec,
                                        const engine::PlannedPrompts& prompts,
                                        const tensor::Rehearsal& rehearsal,
                                        std::shared_ptr<generate::Cache> cache) {
  RehearsedGeneration out;
  out.stretch.from = std::ssize(rehearsal.events());
  out.sleeps = spec.sleeps;
  const tensor::Stage stage(generate::kGenerationStage);
  if (cache == nullptr)
    cache = std::make_shared<generate::Cache>(model, cache_kind(model, spec), spec.cache_bytes);
  generate::Generator generator(model, spec, cache);
  telemetry::RunPlan::Generation& all = out.all;
  all.prompts = std::ssize(prompts.prompts);
  all.completions = prompts.completions;
  all.max_new_tokens = prompts.max_new_tokens;
  for (const std::vector<int32_t>& ids : prompts.prompts)
    all.prompt_tokens = std::max(all.prompt_tokens, std::ssize(ids));
  all.block_tokens = kernels::kCacheRows;
  all.block_bytes = generator.block_bytes();
  all.kv_limit_bytes = generator.use().blocks_limit * all.block_bytes;
  all.sequences_that_fit =
      generate::Scheduler::sequences_in(generator.use().blocks_limit, all.prompt_tokens,
                                        all.prompt_tokens + all.max_new_tokens, all.completions);
  all.update_bytes = update_bytes(model);
  need_room(all, prompts.keys);
  engine::Sampling sampling;
  sampling.max_new_tokens = prompts.max_new_tokens;
  for (const std::vector<int32_t>& ids : prompts.prompts)
    generator.add({.ids = ids,
                   .sampling = sampling,
                   .adapter = model.adapters().in_use(),
                   .count = prompts.completions});
  Watch watch(generator);
  while (generator.step(watch)) base::poll();
  all.blocks = watch.blocks;
  all.kv_bytes = watch.bytes;
  generator.release_memory();  // as a run does after each generation
  out.stretch.to = std::ssize(rehearsal.events());
  return out;
}

telemetry::RunPlan::Generation with_bytes(RehearsedGeneration generation,
                                          const tensor::Rehearsal& rehearsal) {
  const auto [own, everything] = plans_of(rehearsal, generation.stretch, generation_term);
  telemetry::RunPlan::Generation all = generation.all;
  for (const memory::Term& term : own.terms) {
    if (term.name == kWeights) all.weights_bytes = term.most;
    if (term.name == kCopies) all.copies_bytes = term.most;
    if (term.name == kLogits) all.logits_bytes = term.most;
    if (term.name == kWork) all.work_bytes = term.most;
  }
  all.bytes = own.peak;
  all.asleep_bytes = generation.sleeps ? 0 : all.copies_bytes;
  all.peak_bytes = everything.peak;
  return all;
}

std::optional<RehearsedMerge> rehearse_merge(model::Model& model, const tensor::Rehearsal& rehearsal) {
  model::Adapters& adapters = model.adapters();
  model::Adapter* const adapter = adapters.trained();
  if (adapter == nullptr) return std::nullopt;
  RehearsedMerge out;
  try {
    out.saving.from = std::ssize(rehearsal.events());
    adapters.merged_to_save(*adapter).reset();
    out.saving.to = out.merged.from = std::ssize(rehearsal.events());
    adapters.merge(*adapter);
    adapters.unmerge();
    out.merged.to = std::ssize(rehearsal.events());
  } catch (const Error& error) {
    if (error.status() != Status::unsupported) throw;
    return std::nullopt;
  }
  return out;
}

telemetry::RunPlan::Merge bytes_of(const RehearsedMerge& merge, const tensor::Rehearsal& rehearsal) {
  const auto term = [](const tensor::Taken&) { return std::string("merge"); };
  const Plans saving = plans_of(rehearsal, merge.saving, term);
  return {plans_of(rehearsal, merge.merged, term).own.peak, saving.own.peak, saving.everything.peak};
}

}  // namespace trl::entry
