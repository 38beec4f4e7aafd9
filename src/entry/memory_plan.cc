#include "entry/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>

#include "base/error.h"
#include "base/json/json.h"
#include "base/memory/resident.h"
#include "entry/boundary.h"
#include "entry/same_batch.h"
#include "entry/start.h"
#include "entry/trained.h"
#include "entry/trainer_object.h"
#include "kernels/probe.h"
#include "memory/disk_speed.h"
#include "memory/plan.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "tensor/device.h"
#include "tensor/memory/mapped_pages.h"
#include "train/disk_room.h"
#include "train/trainer.h"

namespace trl::entry {

namespace {

using base::MemoryKind;

std::string term(const tensor::Taken& taken) {
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
      if (forward) return "workspace of forward";
      break;
  }
  if (taken.stage == "evaluation") return "evaluation";
  if (taken.stage == "reference") return "forward of the reference";
  return loss                         ? "loss workspace"
         : opening || adapters        ? "reading of weights"
         : taken.stage == "optimizer" ? "update"
                                      : "backward";
}

struct Rehearsed {
  memory::Plan memory;
  memory::Plan kinds;  // the same, by the kinds of the memory counter
  std::map<tensor::Work, double> work;
  std::vector<double> clock;            // of the plan's moments, from 0 to 1
  std::vector<std::string_view> stage;  // of each moment
  double traffic = 0;                   // bytes that pass through memory in addition to those of products
  int64_t left = 0;                     // bytes that move from memory to a file, and back
  train::DiskNeeds disk;
  int64_t cache_tokens = 0, cache_bytes = 0;  // the keys and values of one sequence
  int64_t token_state_bytes = 0;              // hidden states of one token, which cache_frozen_layers keeps
  int64_t parameters = 0, trained = 0;
  int64_t longest = 0, tokens = 0;  // tokens of a row, and of a micro-batch as num_tokens counts them
  int64_t events = 0;               // up to the end of the step, or of the evaluation after it
};

// Returns the bytes read and written in a block: each part counts as often as it is used.
double traffic_of(const tensor::Taken& taken) {
  const auto bytes = static_cast<double>(taken.bytes);
  if (taken.kind == MemoryKind::gradients)
    return 3 * bytes;  // zeroed, read for the norm, read for the update
  if (taken.kind == MemoryKind::optimizer) return 2 * bytes;
  if (taken.stage == "open" || taken.stage == "adapters" || taken.kind == MemoryKind::data) return 0;
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
int64_t cache_bytes(model::Model& model, int64_t tokens, bool bf16) {
  const tensor::Rehearsal apart;
  const model::ModelConfig& config = model.config();
  model::KvCache cache;
  cache.layers.resize(static_cast<size_t>(config.num_hidden_layers));
  cache.reserve(tokens, config.num_key_value_heads, config.head_dim,
                model.compute(bf16 ? at::kBFloat16 : at::kFloat), at::kCPU);
  int64_t bytes = 0;
  for (const tensor::Taken& taken : apart.taken()) bytes += taken.bytes;
  return bytes;
}

// Opens the model as a run does, in a rehearsal.
std::unique_ptr<model::Model> opened(const engine::PlanSpec& spec, const config::Config& config) {
  base::NullLog log;
  const std::string path(spec.model.path);
  auto model = model::Model::open(path, spec.model.dtype, &log, at::kCPU, head_of(config),
                                  spec.model.quantization, spec.model.seed);
  if (spec.model.embedding_rows > 0) model->resize_embeddings(spec.model.embedding_rows);
  const tensor::Stage stage("adapters");
  if (const auto adapter = config.get_text("adapter_name_or_path"); adapter && !adapter->empty())
    model->adapters().open("default", *adapter, &log);
  refuse_quantised(*model, config);
  add_adapter(*model, path, config, spec.new_tokens, log);
  return model;
}

void rehearse_run(const engine::PlanSpec& spec, const config::Config& config,
                  const config::TrainingArguments& arguments, const tensor::Rehearsal& rehearsal,
                  Rehearsed& out) {
  const auto model = opened(spec, config);
  train::Setup setup;
  setup.arguments = arguments;
  setup.arguments.levers = spec.levers;
  const std::vector<int64_t> lengths = lengths_of(spec, *model, config.get_bool("packing"));
  const int64_t longest = lengths.empty() ? 1 : *std::max_element(lengths.begin(), lengths.end());
  out.longest = longest;
  out.tokens = counted_tokens(lengths, arguments);
  SameBatch batches(sequences_of(lengths, setup.arguments));
  const std::vector evaluated_rows(static_cast<size_t>(setup.arguments.per_device_eval_batch_size),
                                   spec.eval_longest > 0 ? spec.eval_longest : longest);
  SameBatch evaluation(sequences_of(evaluated_rows, setup.arguments), 1);
  setup.arguments.on_nonfinite = config::OnNonfinite::proceed;
  setup.arguments.max_steps = 2;
  setup.arguments.profile_parts = false;
  setup.arguments.share_prefix = config::SharePrefix::never;  // only the lengths of rows are known
  const bool bf16 = setup.arguments.bf16, evaluated = evaluates(setup.arguments);
  setup.model = model.get();
  setup.model_path = spec.model.path;
  setup.train = &batches;
  if (evaluated) setup.eval = &evaluation;
  train::Trainer trainer(std::move(setup));
  for (const tensor::Parameter* p : model->all_parameters()) {
    out.parameters += p->count();
    if (!p->trainable) continue;
    out.trained += p->count();
    out.traffic += 2.0 * static_cast<double>(p->count()) * static_cast<double>(c10::elementSize(p->dtype()));
  }
  trainer.rehearse();
  out.work = rehearsal.work();
  for (const tensor::Taken& taken : rehearsal.taken()) out.traffic += traffic_of(taken);
  if (evaluated) {
    const tensor::Stage stage("evaluation");
    trainer.evaluate();
  }
  out.events = std::ssize(rehearsal.events());  // later events belong to the trainer's end
  out.disk = trainer.disk_needs();
  out.token_state_bytes =
      model->config().hidden_size * static_cast<int64_t>(c10::elementSize(model->dtype()));
  out.cache_tokens = longest;
  out.cache_bytes = cache_bytes(*model, longest, bf16);
}

// Returns the stage of each event. Events before the first forward belong to opening.
std::vector<std::string_view> stages_of(std::span<const tensor::Rehearsal::Event> events) {
  std::vector<std::string_view> stages;
  bool forward = false;
  for (const auto& event : events) {
    forward = forward || event.stage == "forward" || event.stage == "reference";
    stages.push_back(forward ? event.stage : "open");
  }
  return stages;
}

// Returns the place of the first event of each stage.
std::vector<int64_t> first_of_each(const std::vector<std::string_view>& stages) {
  std::vector<int64_t> first;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (seen.insert(stages[i]).second) first.push_back(static_cast<int64_t>(i));
  }
  return first;
}

Rehearsed rehearse(const engine::PlanSpec& spec, const config::Config& config,
                   const config::TrainingArguments& arguments) {
  Rehearsed out;
  const int64_t start = start_to_come();
  tensor::Rehearsal rehearsal;
  rehearse_run(spec, config, arguments, rehearsal, out);
  // Resident before the first event of a run, and given back at that event.
  std::vector<memory::Holding> holdings, kinds;
  if (const int64_t more = start - base::resident_bytes(); more > 0)
    holdings.push_back({"start of the process", more, 0, 1});
  for (const tensor::Taken& taken : rehearsal.taken()) {
    holdings.push_back({term(taken), taken.bytes, taken.from, taken.to});
    if (taken.stage == tensor::kMappedPages) continue;  // the counter does not see them
    kinds.push_back({std::string(base::memory_kind_name(taken.kind)), taken.bytes, taken.from, taken.to});
  }
  constexpr int64_t kMoments = 400;
  const std::span events = std::span(rehearsal.events()).first(static_cast<size_t>(out.events));
  const std::vector<std::string_view> stages = stages_of(events);
  out.memory = memory::plan(holdings, out.events, kMoments, first_of_each(stages));
  out.kinds = memory::plan(kinds, out.events, 1);
  const double whole = events.empty() ? 1 : std::max(events.back().clock, 1.0);
  for (const auto& moment : out.memory.moments) {
    const auto event = static_cast<size_t>(moment.event);
    out.clock.push_back(events[event].clock / whole);
    out.stage.push_back(stages[event]);
  }
  out.left = rehearsal.left();
  return out;
}

void add_memory(base::Json& json, const Rehearsed& run, int64_t process) {
  json["peak_bytes"] = run.memory.peak + process;
  json["process_bytes"] = process;
  json["counted_bytes"] = run.kinds.peak;
  base::Json& kinds = json["kinds"];
  for (int32_t i = 0; i < base::kMemoryKinds; ++i)
    kinds[std::string(base::memory_kind_name(static_cast<MemoryKind>(i)))] = 0;
  for (const memory::Term& kind : run.kinds.terms) kinds[kind.name] = kind.most;
  base::Json& terms = json["terms"] = base::Json::array();
  const auto add = [&](const std::string& name, int64_t at_peak, int64_t most) {
    terms.push_back({{"name", name}, {"bytes", at_peak}, {"most_bytes", most}});
  };
  add("process", process, process);
  for (const memory::Term& term : run.memory.terms) add(term.name, term.at_peak, term.most);
  base::Json& timeline = json["timeline"] = base::Json::array();
  for (size_t i = 0; i < run.memory.moments.size(); ++i) {
    base::Json bytes = {process};
    for (const int64_t of : run.memory.moments[i].bytes) bytes.push_back(of);
    timeline.push_back(
        {{"at", run.clock[i]}, {"stage", std::string(run.stage[i])}, {"bytes", std::move(bytes)}});
  }
}

// Throws Error(io) if the disks lack room for a run of that many batches an epoch (-1: streaming; 0: not
// known).
void need_disks(const config::RunOptions& options, train::DiskNeeds needs, int64_t batches) {
  config::TrainingArguments arguments = options.arguments;
  if (batches == 0 && arguments.max_steps <= 0) arguments.max_steps = 1;
  // The checkpoint of a resumed run determines its remaining saves.
  if (arguments.resume_from_checkpoint) arguments.save_strategy = config::Strategy::no;
  const train::RunSteps steps = train::run_steps(arguments, batches != 0 ? batches : SameBatch::kMany, 1);
  needs.checkpoints = train::checkpoints_ahead(arguments, steps, 0);
  needs.activation_bytes = 0;  // those of the largest batch are compared when the trainer is made
  train::need_room(arguments, needs);
}

// Calls check, and returns the reason if it refuses the run, or null.
template <typename Check>
base::Json refusal_of(const Check& check) try {
  check();
  return nullptr;
} catch (const Error& error) {
  if (error.status() != Status::io) throw;
  return {{"key", error.key()}, {"message", error.message()}};
}

// tokens: of all rows; 0: not known.
base::Json disk_json(const config::TrainingArguments& arguments, const Rehearsed& run, int64_t steps,
                     double tokens) {
  train::RunSteps planned;
  planned.max_steps = steps;
  planned.save_steps = std::max<int64_t>(1, config::update_count(arguments.save_steps, steps));
  const auto epochs = static_cast<int64_t>(std::ceil(std::max(1.0, arguments.num_train_epochs)));
  planned.updates_per_epoch = std::max<int64_t>(1, (steps + epochs - 1) / epochs);
  train::DiskNeeds needs = run.disk;
  needs.checkpoints = train::checkpoints_ahead(arguments, planned, 0);
  base::Json json = {{"checkpoint_bytes", needs.checkpoint_bytes},
                     {"checkpoints", needs.checkpoints},
                     {"model_bytes", needs.model_bytes},
                     {"needed_bytes", needs.saved_bytes()},
                     {"free_bytes", train::free_on_disk(arguments.output_dir)}};
  train::DiskNeeds compared = needs;
  if (arguments.resume_from_checkpoint)
    compared.checkpoints = 0;  // the resumed checkpoint decides how many are left
  if (base::Json refusal = refusal_of([&] { train::need_room(arguments, compared); }); !refusal.is_null())
    json["refused"] = std::move(refusal);
  if (const std::string away = config::offload_directory(arguments); !away.empty()) {
    json["offloaded_state_bytes"] = needs.state_bytes;
    json["offloaded_activation_bytes"] = needs.activation_bytes;
    json["offload_needed_bytes"] = needs.away_bytes();
    json["offload_free_bytes"] = train::free_on_disk(away);
  }
  if (const std::string& cache = arguments.cache_frozen_layers; !cache.empty()) {
    if (tokens > 0) json["frozen_states_bytes"] = static_cast<int64_t>(tokens) * run.token_state_bytes;
    json["frozen_states_free_bytes"] = train::free_on_disk(cache);
  }
  return json;
}

// Returns the seconds of writing and reading. They may overlap with arithmetic; the plan does not count on
// that.
double add_leaving(base::Json& json, const Rehearsed& run, const config::TrainingArguments& arguments) {
  const std::string& directory = arguments.offload->directory;
  const memory::DiskSpeed disk = memory::disk_speed(directory);
  json["leaving"] = {{"bytes", run.left},
                     {"most_bytes", run.disk.activation_bytes},  // at once
                     {"free_bytes", train::free_on_disk(directory)},
                     {"write_bytes_per_second", disk.write},
                     {"read_bytes_per_second", disk.read}};
  const auto all = static_cast<double>(run.left);
  return all / disk.write + all / disk.read;
}

void add_time(base::Json& json, const Rehearsed& run, const engine::PlanSpec& spec,
              const config::TrainingArguments& arguments) {
  const kernels::Speed speed = kernels::probe(run.work);
  double seconds = speed.seconds + run.traffic / speed.bytes_per_second;
  if (run.left > 0) seconds += add_leaving(json, run, arguments);
  const int64_t tokens = arguments.gradient_accumulation_steps * run.tokens;
  const auto of_step = static_cast<double>(tokens);
  json["tokens_per_step"] = tokens;
  json["seconds_per_step"] = seconds;
  json["tokens_per_second"] = of_step / seconds;
  if (spec.steps > 0) json["steps"] = spec.steps;
  const double all = spec.tokens > 0 ? spec.tokens : of_step * static_cast<double>(spec.steps);
  if (all <= 0) return;
  json["tokens"] = all;
  json["seconds"] = all / of_step * seconds;
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

std::string plan_json(const engine::PlanSpec& spec) {
  const auto& [config, arguments] = *spec.options;
  check_plannable(config, arguments);
  const Rehearsed run = rehearse(spec, config, arguments);
  base::Json json;
  if (spec.time) add_time(json, run, spec, arguments);
  add_memory(json, run, base::resident_bytes());  // a step also uses the probe's pages of code
  json["row_tokens"] = run.longest;
  json["parameters"] = run.parameters;
  json["trained_parameters"] = run.trained;
  json["kv_cache"] = {{"tokens", run.cache_tokens}, {"bytes", run.cache_bytes}};
  json["disk"] = disk_json(arguments, run, spec.steps, spec.epoch_tokens);
  if (spec.disks)
    json["refused"] = refusal_of([&] { need_disks(*spec.options, run.disk, spec.batches_per_epoch); });
  return json.dump();
}

void check_disks(const engine::PlanSpec& spec, int64_t batches_per_epoch) {
  const tensor::Rehearsal rehearsal;
  const auto model = opened(spec, spec.options->config);
  SameBatch batches(std::vector<int64_t>{1});
  train::Setup setup;
  setup.arguments = spec.options->arguments;
  setup.arguments.max_steps = 1;
  setup.arguments.cache_frozen_layers.clear();  // this cache checks its own disk
  setup.model = model.get();
  setup.model_path = spec.model.path;
  setup.train = &batches;
  need_disks(*spec.options, train::Trainer(std::move(setup)).disk_needs(), batches_per_epoch);
}

}  // namespace trl::entry
