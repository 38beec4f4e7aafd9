#include "entry/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>

#include "base/error.h"
#include "base/memory/system_memory.h"
#include "config/beside_arguments.h"
#include "entry/boundary.h"
#include "entry/generation_plan.h"
#include "entry/generator_object.h"
#include "entry/model_object.h"
#include "entry/same_batch.h"
#include "entry/trainer_object.h"
#include "kernels/probe.h"
#include "memory/paged_memory.h"
#include "memory/plan.h"
#include "model/layer_context.h"
#include "model/model.h"
#include "tensor/device.h"
#include "tensor/memory/libtorch_memory.h"
#include "tensor/memory/rehearsal.h"
#include "train/batches.h"
#include "train/disk_needs.h"
#include "train/evaluator.h"
#include "train/policy/joint.h"
#include "train/trainer.h"

namespace trl::entry {

namespace {

using base::MemoryKind;

std::string term(const tensor::Taken& taken) {
  if (std::string name = generation_term(taken); !name.empty()) return name;
  const bool opening = taken.stage == "open", forward = taken.stage == "forward",
             loss = taken.stage == "loss", adapters = taken.stage == "adapters",
             mapped = taken.stage == tensor::kMappedPages;
  switch (taken.kind) {
    case MemoryKind::weights:
      if (mapped) return "weights, as pages of the model's file";
      if (adapters) return "adapters";
      return opening ? "weights" : "weights in the type that is computed in";
    case MemoryKind::gradients:
      return "gradients";
    case MemoryKind::optimizer:
      return mapped ? "optimizer state, as pages of its file" : "optimizer state";
    case MemoryKind::data:
      return "batches";
    case MemoryKind::activations:
      if (forward) return "activations kept for backward";
      break;
    case MemoryKind::workspace:
      if (mapped) return "buffers of OpenBLAS";
      if (forward) return "workspace of forward";
      break;
  }
  if (taken.stage == tensor::kLibtorchMemory) return "decomposition of weights";
  if (taken.stage == "evaluation") return "evaluation";
  if (taken.stage == "reference") return "forward of the reference";
  return loss                         ? "loss workspace"
         : opening || adapters        ? "reading of weights"
         : taken.stage == "optimizer" ? "update"
                                      : "backward";
}

// The figures of a rehearsal, and the part of the plan that follows from them alone.
struct Rehearsed {
  telemetry::RunPlan plan;  // without the process, time and disks
  std::map<tensor::Work, double> work;
  double traffic = 0;  // bytes that pass through memory in addition to those of products
  int64_t left = 0;    // bytes that move from memory to a file, and back
  train::DiskNeeds disk;
  int64_t token_state_bytes = 0;  // hidden states of one token, which cache_frozen_layers keeps
  int64_t tokens = 0;             // of a micro-batch, as num_tokens counts them
  int64_t events = 0;             // up to the end of the step, or of the evaluation or samples after it
  std::optional<RehearsedGeneration> samples, asked;
  std::optional<RehearsedMerge> merge;
  int64_t trained_bytes = 0;  // of the weights that are trained
};

// Returns the bytes read and written in a block: each part counts as often as it is used.
double traffic_of(const tensor::Taken& taken) {
  const auto bytes = static_cast<double>(taken.bytes);
  if (taken.kind == MemoryKind::gradients)
    return 3 * bytes;  // zeroed, read for the norm, read for the update
  if (taken.kind == MemoryKind::optimizer) return 2 * bytes;
  if (taken.stage == "open" || taken.stage == "adapters" || taken.stage == tensor::kLibtorchMemory ||
      taken.kind == MemoryKind::data)
    return 0;
  return 3 * bytes;
}

bool evaluates(const config::TrainingArguments& arguments) {
  return arguments.eval_strategy != config::Strategy::no || arguments.eval_on_start;
}

// Counts the tokens of these rows as num_tokens does: exchanged completions are left out.
int64_t counted_tokens(std::span<const int64_t> rows, const config::TrainingArguments& arguments) {
  return arguments.method->sequences * std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

// Returns the bytes that generation keeps for one sequence of `tokens` tokens.
int64_t cache_bytes(const model::Model& model, int64_t tokens, const engine::GeneratorSpec& spec) {
  return generate::block_bytes(model, cache_kind(model, spec)) * generate::Scheduler::blocks_of(tokens);
}

// Completes sample_prompts, which the run does without in case of an error.
std::optional<RehearsedGeneration> rehearse_samples(const model::Model& model, const engine::PlanSpec& spec,
                                                    const tensor::Rehearsal& rehearsal) {
  if (spec.samples.prompts.empty()) return std::nullopt;
  try {
    return rehearse_generation(model, spec.generator, spec.samples, rehearsal);
  } catch (const Error& error) {
    if (error.status() == Status::cancelled || error.status() == Status::callback) throw;
    return std::nullopt;
  }
}

std::optional<RehearsedGeneration> rehearse_asked(const model::Model& model, const engine::PlanSpec& spec,
                                                  const tensor::Rehearsal& rehearsal) {
  if (spec.asked.prompts.empty()) return std::nullopt;
  if (model.config().labels > 0)
    fail_key("estimate.prompt_tokens",
             "estimate.prompt_tokens: a reward model scores text and cannot complete it: leave it out");
  return rehearse_generation(model, spec.generator, spec.asked, rehearsal);
}

// Opens the model as a run does, in a rehearsal.
std::unique_ptr<model::Model> opened(const engine::PlanSpec& spec, const config::Config& config) {
  base::NullLog log;
  auto model = model::Model::open(spec.model.source, spec.model.dtype, &log, at::kCPU, head_of(config),
                                  spec.model.quantization, spec.model.seed);
  if (spec.model.embedding_rows > 0) model->resize_embeddings(spec.model.embedding_rows);
  if (spec.model.wide_head) model->widen_head();
  const tensor::Stage stage("adapters");
  if (const auto adapter = config.get_text("adapter_name_or_path"); adapter && !adapter->empty())
    model->adapters().open("default", *adapter, &log);
  refuse_quantised(*model, config);
  add_adapter(*model, spec.model.source.name(), config, spec.new_tokens, log);
  return model;
}

// Returns the tokens by which a group of completions, as one tree, exceeds a micro-batch; 0: it does not, or
// it is cut.
int64_t joint_tokens(const config::TrainingArguments& arguments, std::span<const int64_t> lengths) {
  const config::OnlineArguments& online = arguments.online;
  const int64_t rows = std::ssize(lengths) * arguments.gradient_accumulation_steps;
  if (arguments.max_tokens_per_pass || lengths.empty()) return 0;
  const int64_t completion = online.longest_completion(), longest = std::ranges::max(lengths);
  const int64_t tree = longest + (std::min(online.num_generations, rows) - 1) * completion;
  const int64_t micro_batch = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return train::largest_part(micro_batch, tree) - micro_batch;
}

void rehearse_run(const engine::PlanSpec& spec, const config::Config& config,
                  const config::TrainingArguments& arguments, const tensor::Rehearsal& rehearsal,
                  Rehearsed& out) {
  const auto model = opened(spec, config);
  train::Setup setup;
  setup.arguments = arguments;
  setup.arguments.levers = spec.levers;
  const std::vector<int64_t> lengths = lengths_of(spec, *model, config.get_bool("packing"));
  const int64_t longest = lengths.empty() ? 1 : *std::ranges::max_element(lengths);
  out.plan.row_tokens = out.plan.cache_tokens = longest;
  out.tokens = counted_tokens(lengths, arguments);
  SameBatch batches(sequences_of(lengths, setup.arguments), setup.arguments);
  const std::vector evaluated_rows(static_cast<size_t>(setup.arguments.per_device_eval_batch_size),
                                   spec.eval_longest > 0 ? spec.eval_longest : longest);
  SameBatch evaluation(sequences_of(evaluated_rows, setup.arguments), setup.arguments, 1);
  setup.arguments.on_nonfinite = config::OnNonfinite::proceed;
  setup.arguments.max_steps = 2;
  setup.arguments.profile_parts = false;
  setup.arguments.share_prefix = config::SharePrefix::never;  // only the lengths of rows are known
  const bool evaluated = evaluates(setup.arguments);
  setup.model = model.get();
  setup.source = spec.model.source;
  setup.train = &batches;
  if (evaluated) setup.eval = &evaluation;
  train::Trainer trainer(std::move(setup));
  if (trainer.joins() && arguments.gradient_accumulation_steps > 1 &&
      train::sharing_of(arguments, *model, nullptr, nullptr))
    batches.join(joint_tokens(arguments, lengths));
  for (const tensor::Parameter* p : model->all_parameters()) {
    out.plan.parameters += p->count();
    if (!p->trainable) continue;
    out.plan.trained_parameters += p->count();
    out.trained_bytes += p->count() * static_cast<int64_t>(c10::elementSize(p->dtype()));
  }
  std::vector<const model::Model*> writers = {model.get()};
  if (const model::Model* const teacher = trainer.teacher()) writers.push_back(teacher);
  std::vector<std::shared_ptr<generate::Cache>> caches;
  for (const model::Model* writer : writers) caches.push_back(kept_cache(*writer, spec));
  trainer.rehearse();
  out.work = rehearsal.work();
  for (size_t i = 0; i < writers.size() && !spec.rollouts.prompts.empty(); ++i)
    rehearse_generation(*writers[i], spec.generator, spec.rollouts, rehearsal, caches[i]);
  out.traffic += 2.0 * static_cast<double>(out.trained_bytes);
  for (const tensor::Taken& taken : rehearsal.taken()) out.traffic += traffic_of(taken);
  if (evaluated) {
    const tensor::Stage stage("evaluation");
    trainer.evaluate();
  }
  out.samples = rehearse_samples(*model, spec, rehearsal);
  out.events = std::ssize(rehearsal.events());  // later events belong to the trainer's end
  out.asked = rehearse_asked(*model, spec, rehearsal);
  out.merge = rehearse_merge(*model, rehearsal);
  out.disk = trainer.disk_needs();
  out.token_state_bytes =
      model->config().hidden_size * static_cast<int64_t>(c10::elementSize(model->dtype()));
  out.plan.cache_bytes = cache_bytes(*model, longest, spec.generator);
}

// Returns the stage of each event. Events before the first forward belong to opening.
std::vector<std::string_view> stages_of(std::span<const tensor::Rehearsal::Event> events) {
  std::vector<std::string_view> stages;
  bool forward = false;
  for (const auto& event : events) {
    forward = forward || event.stage == "forward" || event.stage == "reference";
    stages.push_back(forward ? with_generation(event.stage) : "open");
  }
  return stages;
}

// Returns the place of the first event of each stage.
std::vector<int64_t> first_of_each(const std::vector<std::string_view>& stages) {
  std::vector<int64_t> first;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < stages.size(); ++i)
    if (seen.insert(stages[i]).second) first.push_back(static_cast<int64_t>(i));
  return first;
}

// Memory of servers: of requests that are answered while the run trains (serve_share), or of the weights on
// their way to a server that writes the completions.
struct OfServer {
  const char* term;
  int64_t bytes, from;                  // up to the end
  std::optional<MemoryKind> kind = {};  // none: the memory counter does not see it
};

std::vector<OfServer> of_servers(const Rehearsed& run, const config::Config& config,
                                 const config::TrainingArguments& arguments,
                                 const tensor::Rehearsal& rehearsal) {
  std::vector<OfServer> all;
  if (const auto beside = config::beside_arguments(config)) {
    constexpr int64_t kPublished = 2;  // the newest values, and those before while they are read
    all.push_back({"adapter for requests meanwhile", (beside->versions + kPublished) * run.trained_bytes, 1,
                   MemoryKind::weights});
    if (run.asked)
      all.push_back({"generation for requests meanwhile", with_bytes(*run.asked, rehearsal).bytes, 1,
                     MemoryKind::workspace});
  }
  const auto& server = arguments.online.server;
  if (server && server->weights == config::ServerWeights::tensors)
    all.push_back({"weights on their way to the server", run.trained_bytes, run.events - 1});
  return all;
}

// Plans the memory that the memory counter sees. Its terms are the kinds.
memory::Plan counted(const tensor::Rehearsal& rehearsal, int64_t events,
                     std::span<const OfServer> servers = {}) {
  std::vector<memory::Holding> kinds;
  for (const OfServer& one : servers)
    if (one.kind)
      kinds.push_back({std::string(base::memory_kind_name(*one.kind)), one.bytes, one.from, events});
  for (const tensor::Taken& taken : rehearsal.taken())
    if (taken.stage != tensor::kMappedPages)
      kinds.push_back({std::string(base::memory_kind_name(taken.kind)), taken.bytes, taken.from, taken.to});
  return memory::plan(kinds, events, 1);
}

// Fills in terms and timeline, with no bytes for the process. holdings: of the other terms.
void add_timeline(telemetry::RunPlan& plan, std::span<const memory::Holding> holdings,
                  std::span<const tensor::Rehearsal::Event> events) {
  constexpr int64_t kMoments = 400;
  const std::vector<std::string_view> stages = stages_of(events);
  const memory::Plan memory = memory::plan(holdings, std::ssize(events), kMoments, first_of_each(stages));
  plan.peak_bytes = memory.peak;
  plan.terms = {{"process"}};
  for (const memory::Term& term : memory.terms) plan.terms.push_back({term.name, term.at_peak, term.most});
  const double whole = events.empty() ? 1 : std::max(events.back().clock, 1.0);
  for (const auto& moment : memory.moments) {
    const auto event = static_cast<size_t>(moment.event);
    std::vector<int64_t> bytes = {0};
    bytes.insert(bytes.end(), moment.bytes.begin(), moment.bytes.end());
    plan.timeline.push_back({events[event].clock / whole, std::string(stages[event]), std::move(bytes)});
  }
}

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
    holdings.push_back({term(taken), taken.bytes, taken.from, taken.to});
  const std::vector<OfServer> servers = of_servers(out, config, arguments, rehearsal);
  for (const OfServer& one : servers) holdings.push_back({one.term, one.bytes, one.from, out.events});
  add_timeline(out.plan, holdings, std::span(rehearsal.events()).first(static_cast<size_t>(out.events)));
  if (out.samples) out.plan.samples = with_bytes(*out.samples, rehearsal);
  if (out.asked) out.plan.generation = with_bytes(*out.asked, rehearsal);
  if (out.asked && config::beside_arguments(config))
    out.plan.generation->peak_bytes = std::max(out.plan.generation->peak_bytes, out.plan.peak_bytes);
  if (out.merge) out.plan.merge = bytes_of(*out.merge, rehearsal);
  const memory::Plan kinds = counted(rehearsal, out.events, servers);
  out.plan.counted_bytes = kinds.peak;
  for (size_t i = 0; i < out.plan.kinds.size(); ++i) {
    for (const memory::Term& kind : kinds.terms)
      if (kind.name == base::memory_kind_name(static_cast<MemoryKind>(i))) out.plan.kinds[i] = kind.most;
  }
  out.left = rehearsal.left();
  return out;
}

// Returns the length of a run as far as it is known: by the batches of an epoch, or by its steps.
train::RunSteps steps_of(const engine::PlanSpec& spec) {
  config::TrainingArguments arguments = spec.options->arguments;
  if (const std::optional<int64_t> batches = spec.batches_per_epoch) {
    if (*batches == 0 && arguments.max_steps <= 0) arguments.max_steps = 1;
    const int64_t generations = *batches / config::micro_batches_per_step(arguments);
    const int64_t rows =
        arguments.method->episodes ? generations * arguments.online.generation_batch_size : 1;
    return train::run_steps(arguments, *batches != 0 ? *batches : SameBatch::kMany,
                            std::max<int64_t>(1, rows));
  }
  train::RunSteps steps;
  steps.max_steps = spec.steps;
  steps.save_steps = std::max<int64_t>(1, config::update_count(arguments.save_steps, spec.steps));
  const auto epochs = static_cast<int64_t>(std::ceil(std::max(1.0, arguments.num_train_epochs)));
  steps.updates_per_epoch = std::max<int64_t>(1, (spec.steps + epochs - 1) / epochs);
  return steps;
}

// Throws Error(io) if the disks have too little room for the run. A run that begins compares the activations
// of its largest batch later, when the trainer is made.
void need_disks(const engine::PlanSpec& spec, train::DiskNeeds needs) {
  const config::TrainingArguments& arguments = spec.options->arguments;
  if (arguments.resume_from_checkpoint) needs.checkpoints = 0;  // the checkpoint decides how many are left
  if (spec.batches_per_epoch) needs.activation_bytes = 0;
  train::need_room(arguments, needs);
}

telemetry::RunPlan::Disk disk_of(const engine::PlanSpec& spec, const Rehearsed& run) {
  const config::TrainingArguments& arguments = spec.options->arguments;
  train::DiskNeeds needs = run.disk;
  needs.checkpoints = train::checkpoints_ahead(arguments, steps_of(spec), 0);
  telemetry::RunPlan::Disk disk;
  disk.checkpoint_bytes = needs.checkpoint_bytes;
  disk.checkpoints = needs.checkpoints;
  disk.model_bytes = needs.model_bytes;
  disk.needed_bytes = needs.saved_bytes();
  disk.free_bytes = train::free_on_disk(arguments.output_dir);
  try {
    need_disks(spec, needs);
  } catch (const Error& error) {
    if (error.status() != Status::io) throw;
    disk.refused = {error.key(), error.message()};
  }
  if (const std::string away = config::offload_directory(arguments); !away.empty())
    disk.offloaded = {needs.state_bytes, needs.activation_bytes, needs.away_bytes(),
                      train::free_on_disk(away)};
  if (const std::string& cache = arguments.cache_frozen_layers; !cache.empty()) {
    std::optional<int64_t> bytes;
    if (spec.epoch_tokens > 0) bytes = static_cast<int64_t>(spec.epoch_tokens) * run.token_state_bytes;
    disk.frozen_states = {bytes, train::free_on_disk(cache)};
  }
  return disk;
}

// Returns the seconds of writing and reading. They may overlap with arithmetic; the plan does not count on
// that.
double add_leaving(Rehearsed& run, const config::TrainingArguments& arguments) {
  const std::string& directory = arguments.offload->directory;
  const memory::DiskSpeed disk = memory::disk_speed(directory);
  run.plan.leaving = {run.left, run.disk.activation_bytes, train::free_on_disk(directory), disk.write,
                      disk.read};
  const auto all = static_cast<double>(run.left);
  return all / disk.write + all / disk.read;
}

void add_time(Rehearsed& run, const engine::PlanSpec& spec) {
  const config::TrainingArguments& arguments = spec.options->arguments;
  const kernels::Speed speed = kernels::probe(run.work);
  double seconds = speed.seconds + run.traffic / speed.bytes_per_second;
  if (run.left > 0) seconds += add_leaving(run, arguments);
  const int64_t tokens = config::micro_batches_per_step(arguments) * run.tokens;
  const auto of_step = static_cast<double>(tokens);
  const double all = spec.tokens > 0 ? spec.tokens : of_step * static_cast<double>(spec.steps);
  run.plan.time = {tokens, seconds, of_step / seconds, spec.steps, all, all / of_step * seconds};
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

void check_disks(const engine::PlanSpec& spec) {
  const tensor::Rehearsal rehearsal;
  const auto model = opened(spec, spec.options->config);
  SameBatch batches(std::vector<int64_t>{1}, spec.options->arguments);
  train::Setup setup;
  setup.arguments = spec.options->arguments;
  setup.arguments.max_steps = 1;
  setup.arguments.cache_frozen_layers.clear();  // this cache checks its own disk
  setup.model = model.get();
  setup.source = spec.model.source;
  setup.train = &batches;
  train::DiskNeeds needs = train::Trainer(std::move(setup)).disk_needs();
  needs.checkpoints = train::checkpoints_ahead(spec.options->arguments, steps_of(spec), 0);
  need_disks(spec, needs);
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
  return counted(rehearsal, std::ssize(rehearsal.events())).peak;
}

}  // namespace trl::entry
