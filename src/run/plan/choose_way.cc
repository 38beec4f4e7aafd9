#include "run/plan/choose_way.h"

#include <cmath>
#include <deque>
#include <limits>

#include "base/error.h"
#include "base/text/quantity.h"
#include "run/plan/too_little.h"

namespace trl::run {

namespace {

using base::bytes_text;

constexpr double kNever = std::numeric_limits<double>::infinity();

// A way that was rehearsed.
struct Tried {
  Way way;
  base::Json plan;
  double bytes = kNever, speed = 0;  // tokens a second
};

class Search {
 public:
  Search(Environment& environment, const config::Config& config, bool leaving_asked, int64_t budget,
         const RunSize& size, int64_t embedding_rows, const std::vector<int32_t>& new_tokens, PlansMade& made)
      : environment_(environment),
        config_(config),
        leaving_asked_(leaving_asked),
        budget_(static_cast<double>(budget)),
        size_(size),
        embedding_rows_(embedding_rows),
        new_tokens_(new_tokens),
        made_(made) {}

  void run() {
    search();
    if (best_ == nullptr) {
      allowed_.leaving = true;  // a run writes to a disk only if nothing else fits
      search();
    }
    if (best_ != nullptr) leave_out_what_is_not_needed();
  }
  const Tried* best() const { return best_; }
  const Tried& smallest() const {
    return *std::min_element(tried_.begin(), tried_.end(),
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
      try_ladders();
    } catch (const Error& error) {
      if (error.key() != kParts || config_.is_set(kParts)) throw;
      allowed_.parts = false;  // this model's micro-batches cannot be split
      try_ladders();
    }
  }

  void try_ladders() {
    for (const Ladder& ladder : ladders(config_, size_, allowed_)) {
      const Tried& form = rehearse(ladder.rung(0));
      if (fits(form) && &form == &tried_.front()) return;                              // no way is faster
      if (best_ != nullptr && best_ != &form && form.speed <= best_->speed) continue;  // nor with levers
      if (!fits(form)) climb(ladder);
    }
  }

  bool fits(const Tried& tried) const { return tried.bytes <= budget_; }

  const Tried& rehearse(const Way& way) {
    const std::string name = way.name();
    for (const Tried& tried : tried_) {
      if (tried.way.name() == name) return tried;
    }
    Tried& made = tried_.emplace_back(Tried{way, {}});
    try {
      made.plan = plan(config::RunOptions(way.options(config_)), way.settings());
    } catch (const Error& error) {
      const bool of_disk = error.key() == "offload_dir" || error.status() == Status::io;
      if (!of_disk || !way.leaves() || leaving_asked_) throw;
      return made;  // no disk is available to leave for
    }
    if (!has_room_on_disk(made.plan)) return made;
    keep_process(made.plan, process_);
    made.bytes = made.plan.at("peak_bytes");
    made.speed = made.plan.at("tokens_per_second");
    if (fits(made) && (best_ == nullptr || made.speed > best_->speed)) best_ = &made;
    return made;
  }

  base::Json plan(const config::RunOptions& options, const config::Levers& levers) {
    std::string key = fmt::format("{} {}\n", levers.small_tiles, levers.weight_copies);
    for (const auto& [name, value] : options.config.values()) key += fmt::format("{}={}\n", name, value);
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    return made_
        .emplace(key, plan_of(environment_, options, size_, embedding_rows_, new_tokens_, true, levers))
        .first->second;
  }

  bool has_room_on_disk(const base::Json& plan) const {
    const auto leaving = plan.find("leaving");
    if (leaving == plan.end()) return true;
    const double free = leaving->at("free_bytes");
    return free < 0 || leaving->at("most_bytes").get<double>() <= free;
  }

  // Finds the fewest levers that fit by binary search.
  void climb(const Ladder& ladder) {
    size_t works = ladder.levers.size();
    // The earlier search has shown that so many levers do not suffice.
    size_t fails = allowed_.leaving ? ladder.staying() : 0;
    while (works > fails && !fits(rehearse(ladder.rung(works)))) {
      if (rehearse(ladder.rung(works)).bytes < kNever) return;
      --works;  // the disk is missing or too small; the previous lever may leave less
    }
    while (works > fails + 1) {
      const size_t between = (fails + works) / 2;
      (fits(rehearse(ladder.rung(between))) ? works : fails) = between;
    }
  }

  void leave_out_what_is_not_needed() {
    for (size_t i = 0; i < best_->way.levers.size();) {
      Way without = best_->way;
      without.levers.erase(without.levers.begin() + static_cast<std::ptrdiff_t>(i));
      if (&rehearse(without) != best_) ++i;
    }
  }

  Environment& environment_;
  const config::Config& config_;
  const bool leaving_asked_;  // the configuration itself asks for activations to leave
  const double budget_;
  const RunSize& size_;
  const int64_t embedding_rows_;
  const std::vector<int32_t>& new_tokens_;
  PlansMade& made_;
  std::deque<Tried> tried_;
  const Tried* best_ = nullptr;
  int64_t process_ = -1;
  Allowed allowed_;
};

std::string chosen_text(const Tried& best, const Tried* faster, int64_t budget) {
  std::string text = fmt::format("memory_budget: {}: {}; {} at most and about {:.0f} tokens/s are predicted",
                                 bytes_text(static_cast<double>(budget)), best.way.name(),
                                 bytes_text(best.bytes), best.speed);
  if (const auto leaving = best.plan.find("leaving"); leaving != best.plan.end()) {
    text += fmt::format("; {} a step leave for a disk that writes {} and reads {} a second",
                        bytes_text(leaving->at("bytes")), bytes_text(leaving->at("write_bytes_per_second")),
                        bytes_text(leaving->at("read_bytes_per_second")));
  }
  if (faster != nullptr) {
    text += fmt::format("; the next faster way ({}) would take {} and do about {:.0f} tokens/s",
                        faster->way.name(), bytes_text(faster->bytes), faster->speed);
  }
  return text;
}

}  // namespace

Choice choose_way(Environment& environment, const config::RunOptions& options, int64_t budget,
                  const RunSize& size, int64_t embedding_rows, const std::vector<int32_t>& new_tokens,
                  PlansMade& made) {
  const auto& [config, training] = options;
  Search search(environment, config, training.offload.has_value(), budget, size, embedding_rows, new_tokens,
                made);
  search.run();
  const Tried* const best = search.best();
  if (best == nullptr) {
    const Tried& least = search.smallest();
    refuse_too_little(config, training, budget, least.plan, least.way.name());
  }
  environment.log().write(base::LogLevel::info, "plan", chosen_text(*best, search.next_faster(), budget));
  Choice choice{config::RunOptions(best->way.options(config)), best->way.settings(), best->plan};
  choice.plan["way"] = best->way.name();
  return choice;
}

}  // namespace trl::run
