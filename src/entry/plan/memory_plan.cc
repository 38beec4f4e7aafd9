#include "entry/plan/memory_plan.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/memory/system_memory.h"
#include "config/beside_arguments.h"
#include "entry/boundary.h"
#include "entry/model_object.h"
#include "entry/plan/generation_plan.h"
#include "entry/plan/plan_disks.h"
#include "entry/plan/plan_terms.h"
#include "entry/plan/plan_time.h"
#include "entry/plan/plan_timeline.h"
#include "entry/plan/rehearsed_run.h"
#include "entry/plan/same_batch.h"
#include "entry/plan/server_memory.h"
#include "entry/trained_parts.h"
#include "tensor/device.h"
#include "tensor/memory/rehearsal.h"
#include "train/evaluator.h"

namespace trl::entry {

namespace {

using base::MemoryKind;

Rehearsed rehearse(const engine::PlanSpec& spec, const config::Config& config,
                   const config::TrainingArguments& arguments) {
  Rehearsed out;
  const int64_t start = start_to_come();
  tensor::Rehearsal rehearsal;
  rehearse_run(spec, config, arguments, rehearsal, out);
  // Resident before the first event of a run, and given back at that event.
  std::vector<memory::Holding> holdings;
  if (const int64_t more = start - base::resident_bytes(); more > 0)
    holdings.push_back({"start of the process", more, 0, 1});
  for (const tensor::Taken& taken : rehearsal.taken())
    holdings.push_back({plan_term(taken), taken.bytes, taken.from, taken.to});
  const std::vector<OfServer> servers = of_servers(out, config, arguments, rehearsal);
  for (const OfServer& one : servers) holdings.push_back({one.term, one.bytes, one.from, out.events});
  add_timeline(out.plan, holdings, std::span(rehearsal.events()).first(static_cast<size_t>(out.events)));
  if (out.samples) out.plan.samples = with_bytes(*out.samples, rehearsal);
  if (out.asked) out.plan.generation = with_bytes(*out.asked, rehearsal);
  if (out.asked && config::beside_arguments(config))
    out.plan.generation->peak_bytes = std::max(out.plan.generation->peak_bytes, out.plan.peak_bytes);
  if (out.merge) out.plan.merge = bytes_of(*out.merge, rehearsal);
  const memory::Plan kinds = counted_memory(rehearsal, out.events, servers);
  out.plan.counted_bytes = kinds.peak;
  for (size_t i = 0; i < out.plan.kinds.size(); ++i) {
    for (const memory::Term& kind : kinds.terms)
      if (kind.name == base::memory_kind_name(static_cast<MemoryKind>(i))) out.plan.kinds[i] = kind.most;
  }
  out.left = rehearsal.left();
  return out;
}

}  // namespace

void check_plannable(const config::Config& config, const config::TrainingArguments& arguments) {
  if (!tensor::device(config.get_bool("use_cpu")).is_cpu())
    fail_key("use_cpu",
             "the plan counts the host's memory, and this run would use a GPU: give use_cpu: true");
  if (arguments.fused_kernels == config::FusedKernels::off)
    fail_key("fused_kernels",
             "fused_kernels: off: the plain path takes libtorch's memory, which is not planned");
}

telemetry::RunPlan run_plan(const engine::PlanSpec& spec) {
  const auto& [config, arguments] = *spec.options;
  check_plannable(config, arguments);
  Rehearsed run = rehearse(spec, config, arguments);
  if (spec.time) add_time(run, spec);
  run.plan.set_process(base::resident_bytes());  // a step also uses the probe's pages of code
  run.plan.disk = disk_of(spec, run);
  return std::move(run.plan);
}

int64_t planned_evaluation(const engine::PlanSpec& spec) {
  const auto& [config, arguments] = *spec.options;
  check_plannable(config, arguments);
  const tensor::Rehearsal rehearsal;
  base::NullLog log;
  const auto model = open_model(spec.model, &log, at::kCPU);
  if (spec.model.embedding_rows > 0) model->resize_embeddings(spec.model.embedding_rows);
  if (const auto adapter = config.get_text("adapter_name_or_path"); adapter && !adapter->empty())
    model->adapters().use(&model->adapters().open("default", *adapter, &log));
  retype_adapter(*model, config);
  train::Evaluator::Setup setup{arguments, model.get(), spec.model.source};
  setup.arguments.share_prefix = config::SharePrefix::never;  // only the lengths of rows are known
  train::Evaluator evaluator(std::move(setup));
  engine::PlanSpec rows = spec;
  rows.longest_allowed = true;  // a packed row may be longer than the positions that its documents have
  SameBatch batch(sequences_of(lengths_of(rows, *model, true), arguments), arguments, 1);
  evaluator.evaluate(batch);
  return counted_memory(rehearsal, std::ssize(rehearsal.events())).peak;
}

}  // namespace trl::entry
