#include "run/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "base/error.h"
#include "base/text/number.h"

namespace trl::run {

namespace {

using base::bytes_text;

constexpr double kNever = std::numeric_limits<double>::infinity();

// A way that was rehearsed.
struct Tried {
  Way way;
  RunPlan plan;
  double bytes = kNever, speed = 0;  // tokens a second
};

class Search {
 public:
  Search(const RunToPlan& run, int64_t budget, const RunSize& size, PlansMade& made)
      : run_(run), budget_(static_cast<double>(budget)), size_(size), made_(made) {}

  void find() {
    search();
    if (best_ == nullptr) {
      allowed_.leaving = true;  // a run writes to a disk only if nothing else fits
      search();
    }
    if (best_ != nullptr) leave_out_what_is_not_needed();
  }
  const Tried* best() const { return best_; }
  const Tried& smallest() const {
    return *std::ranges::min_element(tried_,
                                     [](const Tried& a, const Tried& b) { return a.bytes < b.bytes; });
  }
  // Returns the slowest of the ways that are faster than the best and do not fit; or null.
  const Tried* next_faster() const {
    const Tried* next = nullptr;
    for (const Tried& tried : tried_) {
      if (fits(tried) || tried.bytes == kNever || tried.speed <= best_->speed) continue;
      if (next == nullptr || tried.speed < next->speed) next = &tried;
    }
    return next;
  }

 private:
  void search() {
    try {
      try_ways();
    } catch (const Error& error) {
      if (error.key() != kParts || config().is_set(kParts)) throw;
      allowed_.parts = false;  // this model's micro-batches cannot be split
      try_ways();
    }
  }

  void try_ways() {
    for (const Way& way : ways(config(), size_, allowed_)) {
      const Tried& alone = rehearse(way.first(1));
      if (fits(alone) && &alone == &tried_.front()) return;                              // no way is faster
      if (best_ != nullptr && best_ != &alone && alone.speed <= best_->speed) continue;  // nor with levers
      if (!fits(alone)) find_fewest(way);
    }
  }

  bool fits(const Tried& tried) const { return tried.bytes <= budget_; }

  const Tried& rehearse(const Way& way) {
    const std::string name = way.name();
    for (const Tried& tried : tried_)
      if (tried.way.name() == name) return tried;
    Tried& made = tried_.emplace_back(Tried{way, {}});
    try {
      made.plan = plan(config::RunOptions(way.options(config())), way.settings());
    } catch (const Error& error) {
      const bool of_disk = error.key() == "offload_dir" || error.status() == Status::io;
      // The configuration itself may ask for activations to leave.
      if (!of_disk || way.staying() == way.levers.size() || run_.options.arguments.offload) throw;
      return made;  // no disk is available to leave for
    }
    const auto& leaving = made.plan.leaving;
    if (leaving && leaving->free_bytes >= 0 && leaving->most_bytes > leaving->free_bytes) return made;
    keep_process(made.plan, process_);
    made.bytes = static_cast<double>(made.plan.peak_bytes);
    made.speed = made.plan.time.tokens_per_second;
    if (fits(made) && (best_ == nullptr || made.speed > best_->speed)) best_ = &made;
    return made;
  }

  const RunPlan& plan(const config::RunOptions& options, const config::Levers& levers) {
    std::string key = fmt::format("{} {}\n", levers.small_tiles, levers.weight_copies);
    for (const auto& [name, value] : options.config.values()) key += fmt::format("{}={}\n", name, value);
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    const RunToPlan run = {run_.environment, options, run_.model, run_.generation};
    return made_.emplace(key, plan_of(run, size_, true, levers)).first->second;
  }

  // Finds the fewest levers that fit by binary search.
  void find_fewest(const Way& way) {
    size_t works = way.levers.size();
    // The earlier search has shown that so many levers do not suffice.
    size_t fails = allowed_.leaving ? way.staying() : 1;
    while (works > fails && !fits(rehearse(way.first(works)))) {
      if (rehearse(way.first(works)).bytes < kNever) return;
      --works;  // the disk is missing or too small; the previous lever may leave less
    }
    while (works > fails + 1) {
      const size_t between = (fails + works) / 2;
      (fits(rehearse(way.first(between))) ? works : fails) = between;
    }
  }

  void leave_out_what_is_not_needed() {
    for (size_t i = 1; i < best_->way.levers.size();) {
      Way without = best_->way;
      without.levers.erase(without.levers.begin() + static_cast<std::ptrdiff_t>(i));
      if (&rehearse(without) != best_) ++i;
    }
  }

  const config::Config& config() const { return run_.options.config; }

  const RunToPlan& run_;
  const double budget_;
  const RunSize& size_;
  PlansMade& made_;
  std::deque<Tried> tried_;
  const Tried* best_ = nullptr;
  int64_t process_ = -1;
  Allowed allowed_;
};

std::string chosen_text(const Tried& best, const Tried* faster, int64_t budget) {
  std::string text = fmt::format("memory_budget: {}: {}; {} at most and about {:.0f} tokens/s are predicted",
                                 bytes_text(budget), best.way.name(), bytes_text(best.bytes), best.speed);
  if (const auto& leaving = best.plan.leaving) {
    text += fmt::format("; {} a step leave for a disk that writes {} and reads {} a second",
                        bytes_text(leaving->bytes), bytes_text(leaving->write_bytes_per_second),
                        bytes_text(leaving->read_bytes_per_second));
  }
  if (faster != nullptr) {
    text += fmt::format("; the next faster way ({}) would take {} and do about {:.0f} tokens/s",
                        faster->way.name(), bytes_text(faster->bytes), faster->speed);
  }
  return text;
}

using base::bytes_text;

// Formats a sufficient budget as a user would write it: a little more, since the process itself varies from
// run to run.
std::string enough(double bytes) {
  return fmt::format("{:.0f}MB", std::ceil(std::max(1.01 * bytes, bytes + 4e6) / 1e6));
}

// Returns the options that lower a term and are not set yet.
std::string lowered_by(const std::string& term, const config::Config& config,
                       const config::TrainingArguments& training) {
  std::vector<std::string> out;
  const auto add = [&](bool possible, const char* what) {
    if (possible) out.emplace_back(what);
  };
  const bool adapter = config.get_bool("use_peft");
  if (term == "adapter for requests meanwhile") {
    add(config.get_int("serve_versions") > 2, "a smaller serve_versions");
  } else if (term == "generation for requests meanwhile") {
    add(true, "fewer estimate.prompts");
  } else if (term.ends_with("generation")) {
    add(term.starts_with("keys") && config.get("kv_cache_dtype") != "int8", "kv_cache_dtype: int8");
    add(true, "fewer sample_prompts");
  } else if (term.starts_with("weights")) {
    add(config.get("dtype") != "bfloat16", "dtype: bfloat16");
    add(!adapter, "use_peft: true");
    add(adapter && !config.get_bool("load_in_4bit"), "load_in_4bit: true");
  } else if (term == "gradients") {
    add(!training.optimizer_in_backward, "optimizer_in_backward: true");
    add(training.gradient_dtype == config::GradientType::of_weights, "gradient_dtype: bfloat16");
  } else if (term == "optimizer state") {
    const std::string name = config.get("optim");
    add(name.find("8bit") == std::string::npos, "optim: adamw_8bit");
    add(!name.starts_with("paged"), "optim: paged_adamw_8bit, whose state is in a file");
  } else if (term == "decomposition of weights" || term == "buffers of OpenBLAS") {
    add(true, "init_lora_weights: true in peft_config");
  } else if (term != "process" && term != "start of the process") {
    add(training.per_device_train_batch_size > 1,
        "a smaller per_device_train_batch_size with more gradient_accumulation_steps");
    add(true, "a smaller max_length");
  }
  std::string text;
  for (const std::string& one : out) text += (text.empty() ? "" : " or ") + one;
  return text;
}

// Returns "gradients, 540 MB (optimizer_in_backward: true); ...".
std::string largest_terms(const RunPlan& plan, const config::Config& config,
                          const config::TrainingArguments& training) {
  std::vector<std::pair<int64_t, std::string>> terms;
  for (const RunPlan::Term& term : plan.terms) terms.emplace_back(term.bytes, term.name);
  std::sort(terms.rbegin(), terms.rend());
  std::string text;
  std::vector<std::string> said;
  for (const auto& [bytes, name] : terms) {
    const std::string how = lowered_by(name, config, training);
    if (how.empty() || static_cast<double>(bytes) < 0.02 * static_cast<double>(plan.peak_bytes)) continue;
    if (std::ranges::find(said, how) != said.end()) continue;
    said.push_back(how);
    text += fmt::format("{}{} ({}) by {}", text.empty() ? "" : "; ", name, bytes_text(bytes), how);
  }
  return text;
}

// Returns the keys with which the user has excluded ways that would take less.
std::string kept_keys(const config::Config& config) {
  std::string text;
  for (const char* key :
       {"gradient_checkpointing", "activation_checkpointing", "gradient_checkpointing_kwargs",
        "activation_checkpointing_kwargs", "recompute", "activation_offloading"})
    if (config.is_set(key)) text += (text.empty() ? "" : ", ") + std::string(key);
  return text.empty() ? text : fmt::format(" What is set stays as it is, here {}.", text);
}

}  // namespace

Choice choose_way(const RunToPlan& run, int64_t budget, const RunSize& size, PlansMade& made) {
  Search search(run, budget, size, made);
  search.find();
  const Tried* const best = search.best();
  if (best == nullptr) {
    const Tried& least = search.smallest();
    refuse_too_little(run.options, budget, least.plan, least.way);
  }
  run.environment.log().write(base::LogLevel::info, "plan", chosen_text(*best, search.next_faster(), budget));
  Choice choice{config::RunOptions(best->way.options(run.options.config)), best->way.settings(), best->plan};
  choice.plan.way = best->way.name();
  return choice;
}

void refuse_too_little(const config::RunOptions& options, int64_t budget, const RunPlan& plan,
                       const Way& way) {
  const auto& [config, training] = options;
  const std::string terms = largest_terms(plan, config, training);
  fail_key("memory_budget",
           "memory_budget: {} is too little: this run takes at least {} ({}), so {} would do.{} {}",
           bytes_text(budget), bytes_text(plan.peak_bytes), way.name(),
           enough(static_cast<double>(plan.peak_bytes)), kept_keys(config),
           terms.empty() ? "No option lowers that: the process itself takes nearly all of it"
                         : "What can be lowered: " + terms);
}

}  // namespace trl::run
