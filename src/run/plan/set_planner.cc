#include "run/plan/set_planner.h"

#include <algorithm>

#include "data/tokenizer/open_tokenizer.h"
#include "run/model_files.h"
#include "run/plan/limit_check.h"
#include "run/plan/memory_budget.h"
#include "run/plan/memory_room.h"
#include "run/plan/plan.h"
#include "run/training_run.h"

namespace trl::run {

bool is_refusal(Status status) {
  return status == Status::invalid_config || status == Status::not_found || status == Status::io ||
         status == Status::format || status == Status::unsupported;
}

base::Json SetPlanner::plan(const config::Config& given) {
  const config::RunOptions options(with_whole_paths(rows_ != nullptr ? rows_->apply_options(given) : given));
  const auto& [config, training] = options;
  refuse_combinations(config, training);
  Batches& batches = batches_of(config, training);
  const std::optional<int64_t> budget = memory_budget(environment_, config);
  RunSize size = batches.size;
  if (budget && config.get_optional_int("max_length")) {  // as the run itself counts
    const RunSize counted = largest_batch(config, training);
    size.rows = counted.rows;
    size.longest = counted.longest;
    size.allowed = true;
  }
  if (!budget) check_memory_limit(environment_, options, size, batches.embedding_rows, batches.new_tokens);
  base::Json plan = budget ? choose_way(environment_, options, *budget, size, batches.embedding_rows,
                                        batches.new_tokens, batches.made)
                                 .plan
                           : plan_of(environment_, options, size, batches.embedding_rows, batches.new_tokens);
  keep_process(plan, process_);
  plan["room"] = memory_room(plan.at("peak_bytes").get<int64_t>());
  plan["model"] = needed_model_path(config);
  plan["rows"] = size.rows;
  return plan;
}

base::Json SetPlanner::plan(const config::Config& config, const config::OptionSet& set) {
  base::Json out;
  try {
    out = plan(config::with_options(config, set));
  } catch (const Error& error) {
    if (!is_refusal(error.status()) && error.status() != Status::out_of_memory) throw;
    out["refused"] = {{"key", error.key()}, {"message", error.message()}};
  }
  out["options"] = set.name;
  return out;
}

SetPlanner::Batches& SetPlanner::batches_of(const config::Config& config,
                                            const config::TrainingArguments& training) {
  const std::string key = config.values_that_affect(config::Affects::source, config::Affects::batches);
  if (const auto found = batches_.find(key); found != batches_.end()) return found->second;
  return batches_.emplace(key, read_batches(config, training)).first->second;
}

SetPlanner::Batches SetPlanner::read_batches(const config::Config& config,
                                             const config::TrainingArguments& training) const {
  const std::string path = needed_model_path(config);
  Batches out;
  out.tokenizer = open_training_tokenizer(config, path, out.new_tokens, environment_.log());
  if (rows_ == nullptr)
    out.size = largest_batch(config, training);
  else if (config.method().rows != config::RowForm::text)
    out.size = prepared_size(config, training, *rows_, *out.tokenizer);
  else
    out.size =
        measured_size(config, training, *rows_,
                      Tokenizer(data::open_tokenizer(tokenizer_path(path, config), &environment_.log())));
  out.embedding_rows = wanted_embedding_rows(config, *out.tokenizer);
  return out;
}

std::vector<config::OptionSet> usual_sets(const config::Config& config) {
  std::vector<config::OptionSet> out;
  for (const char* text :
       {"gradient_checkpointing=false", "gradient_checkpointing=true",
        "gradient_checkpointing=true recompute=products", "optim=adamw_8bit", "use_peft=true"}) {
    config::OptionSet set = config::option_set(config::parse_option_set(text, "estimate.compare"));
    const auto differs = [&](const auto& option) { return config.get(option.first) != option.second; };
    if (std::any_of(set.options.begin(), set.options.end(), differs)) out.push_back(std::move(set));
  }
  return out;
}

base::Json plan_run(Environment& environment, const config::Config& config, const Rows* rows) {
  constexpr const char* kCompare = "estimate.compare";
  SetPlanner sets(environment, rows);
  base::Json plan = sets.plan(config);
  base::Json& others = plan["alternatives"] = base::Json::array();
  const bool asked = config.get_text(kCompare).has_value();
  for (const config::OptionSet& set : asked ? config::option_sets(config, kCompare) : usual_sets(config)) {
    base::Json other = sets.plan(config, set);
    if (asked || !other.contains("refused")) others.push_back(std::move(other));
  }
  return plan;
}

}  // namespace trl::run
