#include "run/plan/plan.h"

#include <algorithm>
#include <utility>

#include "config/table/option_set.h"
#include "data/tokenizer/open_tokenizer.h"
#include "run/plan/memory_budget.h"
#include "run/training_run.h"

namespace trl::run {

namespace {

using telemetry::PlannedSet;

// Says whether an error of this status refuses a run for its options or files, so that others may continue.
bool is_refusal(Status status) {
  return status == Status::invalid_config || status == Status::not_found || status == Status::io ||
         status == Status::format || status == Status::unsupported;
}

// Plans option sets of a run over the same rows.
class SetPlanner {
 public:
  SetPlanner(Environment& environment, const Rows* rows)  // rows: null: not read
      : environment_(environment), rows_(rows) {}

  RunPlan plan(const config::Config& config);
  PlannedSet plan(const config::Config& config, const config::OptionSet& set);

 private:
  struct Batches {
    RunSize size;
    RunModel model;
    std::shared_ptr<Tokenizer> tokenizer;  // held because a run has it in memory too
    PlansMade made;                        // under a budget
  };
  Batches& batches_of(const config::Config& config, const config::TrainingArguments& training);
  Batches read_batches(const config::Config& config, const config::TrainingArguments& training) const;

  Environment& environment_;
  const Rows* rows_;
  int64_t process_ = -1;  // bytes
  // The batches by the options that they depend on, so that rows are read once for all sets with the same
  // batches.
  std::map<std::string, Batches> batches_;
};

RunPlan SetPlanner::plan(const config::Config& given) {
  const config::RunOptions options(with_whole_paths(rows_ != nullptr ? rows_->apply_options(given) : given));
  const auto& [config, training] = options;
  refuse_combinations(config, training);
  Batches& batches = batches_of(config, training);
  const std::optional<int64_t> budget = memory_budget(environment_, config);
  RunSize size = batches.size;
  if (budget && row_limit(config)) {  // as the run itself counts
    const RunSize counted = largest_batch(config, training);
    size.rows = counted.rows;
    size.longest = counted.longest;
    size.allowed = true;
  }
  const auto samples = sample_prompts(config, *batches.tokenizer);
  const int64_t prompt = training.method->generates ? size.longest - training.online.longest_completion() : 0;
  const auto generation = generation_of(environment_, config, samples, prompt);
  const RunToPlan run = {environment_, options, batches.model, generation.get()};
  if (!budget) check_memory_limit(run, size);
  RunPlan plan = budget ? choose_way(run, *budget, size, batches.made).plan : plan_of(run, size);
  keep_process(plan, process_);
  plan.room = memory_room(plan.peak_bytes);
  plan.model = batches.model.source.name();
  plan.rows = size.rows;
  return plan;
}

PlannedSet SetPlanner::plan(const config::Config& config, const config::OptionSet& set) {
  try {
    return {set.name, plan(config::with_options(config, set)), {}};
  } catch (const Error& error) {
    if (!is_refusal(error.status()) && error.status() != Status::out_of_memory) throw;
    return {set.name, {}, telemetry::Refusal{error.key(), error.message()}};
  }
}

SetPlanner::Batches& SetPlanner::batches_of(const config::Config& config,
                                            const config::TrainingArguments& training) {
  const std::string key = config.values_that_affect(config::Affects::source, config::Affects::batches);
  if (const auto found = batches_.find(key); found != batches_.end()) return found->second;
  return batches_.emplace(key, read_batches(config, training)).first->second;
}

SetPlanner::Batches SetPlanner::read_batches(const config::Config& config,
                                             const config::TrainingArguments& training) const {
  Batches out;
  out.model.source = needed_model(config);
  out.tokenizer = open_training_tokenizer(config, out.model, environment_.log());
  if (rows_ == nullptr)
    out.size = largest_batch(config, training);
  else if (config.method().rows != config::RowForm::text)
    out.size = prepared_size(config, training, *rows_, *out.tokenizer);
  else
    out.size = measured_size(
        config, training, *rows_,
        Tokenizer(data::open_tokenizer(tokenizer_source(out.model.source, config), &environment_.log())));
  out.model.embedding_rows = wanted_embedding_rows(config, *out.tokenizer);
  return out;
}

// Returns the sets that a user is likely to try next, except those that the configuration has already.
std::vector<config::OptionSet> usual_sets(const config::Config& config) {
  std::vector<config::OptionSet> out;
  for (const char* text :
       {"gradient_checkpointing=false", "gradient_checkpointing=true",
        "gradient_checkpointing=true recompute=products", "optim=adamw_8bit", "use_peft=true"}) {
    config::OptionSet set = config::option_set(config::parse_option_set(text, "estimate.compare"));
    const auto differs = [&](const auto& option) { return config.get(option.first) != option.second; };
    if (std::ranges::any_of(set.options, differs)) out.push_back(std::move(set));
  }
  return out;
}

}  // namespace

std::vector<PlannedSet> plan_run(Environment& environment, const config::Config& config, const Rows* rows) {
  constexpr const char* kCompare = "estimate.compare";
  SetPlanner planner(environment, rows);
  std::vector<PlannedSet> sets = {{"as configured", planner.plan(config), {}}};
  const bool asked = config.get_text(kCompare).has_value();
  for (const config::OptionSet& set : asked ? config::option_sets(config, kCompare) : usual_sets(config)) {
    PlannedSet other = planner.plan(config, set);
    if (asked || !other.refused) sets.push_back(std::move(other));
  }
  return sets;
}

void predict_peaks(Environment& environment, telemetry::LengthProfile& profile,
                   const config::Config& given) try {
  if (profile.limits.empty() || profile.limits.front().layouts.empty())
    fail_key("method",
             "the rows are preferences; trl_trainer_plan (trl estimate --method dpo) predicts the peak of a "
             "run on them");
  const config::RunOptions options(with_whole_paths(given));
  const config::Config& config = options.config;
  RunModel model{needed_model(config)};
  const auto tokenizer = open_training_tokenizer(config, model, environment.log());
  model.embedding_rows = wanted_embedding_rows(config, *tokenizer);
  const auto samples = sample_prompts(config, *tokenizer);
  const auto generation = generation_of(environment, config, samples);
  const RunToPlan run = {environment, options, model, generation.get()};
  const int64_t longest = profile.lengths.front().max;
  RunSize size{std::min(config.get_int("per_device_train_batch_size"), std::max<int64_t>(1, profile.rows))};
  int64_t peak = 0, process = -1;
  bool first = true;  // its products bring their code into the process
  for (telemetry::LengthLimit& limit : profile.limits) {
    const int64_t length = std::min(limit.max_length, longest);
    if (length != size.longest) {  // a limit beyond the longest row changes nothing
      size.longest = length;
      size.allowed = length == limit.max_length;
      RunPlan plan = plan_of(run, size, std::exchange(first, false));
      keep_process(plan, process);
      peak = plan.peak_bytes;
    }
    limit.peak_bytes = peak;
  }
} catch (const Error& error) {
  if (!is_refusal(error.status())) throw;
  for (telemetry::LengthLimit& limit : profile.limits) limit.peak_bytes = 0;
  profile.no_peaks = error.message();
}

}  // namespace trl::run
