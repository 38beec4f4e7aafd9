// Generation and merged adapters in a plan: the generator and the merge themselves, in the rehearsal of a
// run.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/generator.h"
#include "engine/plan.h"
#include "generate/cache.h"
#include "model/model.h"
#include "telemetry/run_plan.h"
#include "tensor/memory/rehearsal.h"

namespace trl::entry {

// Returns the term of a plan for a block that was taken in a stage of generation; empty: in another stage.
std::string generation_term(const tensor::Taken& taken);

// Returns the stage in which the stages of generation are one.
std::string_view with_generation(std::string_view stage);

// Events [from, to) of a rehearsal.
struct Stretch {
  int64_t from = 0, to = 0;
};

// The stretch of a rehearsal in which `all` was generated.
struct RehearsedGeneration {
  telemetry::RunPlan::Generation all;  // without bytes that the rehearsal tells
  Stretch stretch;
  bool sleeps = false;  // no copy of weights stays after it
};

// Returns the cache of a run that writes completions, which keeps its copies of weights during updates; null:
// it has none.
std::shared_ptr<generate::Cache> kept_cache(const model::Model& model, const engine::PlanSpec& spec);

// Generates with the model in the rehearsal. cache: nullable. Throws Error for prompts that a generator
// refuses, and Error(invalid_config) for a sequence whose keys and values do not fit.
RehearsedGeneration rehearse_generation(const model::Model& model, const engine::GeneratorSpec& spec,
                                        const engine::PlannedPrompts& prompts,
                                        const tensor::Rehearsal& rehearsal,
                                        std::shared_ptr<generate::Cache> cache = nullptr);

// Fills in the bytes. The process counts as 0.
telemetry::RunPlan::Generation with_bytes(RehearsedGeneration generation, const tensor::Rehearsal& rehearsal);

// The stretches of a rehearsal in which an adapter was merged: for saving the model, and into its weights.
struct RehearsedMerge {
  Stretch saving, merged;
};

// Merges the adapter that is trained, and takes it out again; nullopt: there is none, or it cannot be merged.
std::optional<RehearsedMerge> rehearse_merge(model::Model& model, const tensor::Rehearsal& rehearsal);
// The process counts as 0.
telemetry::RunPlan::Merge bytes_of(const RehearsedMerge& merge, const tensor::Rehearsal& rehearsal);

}  // namespace trl::entry
