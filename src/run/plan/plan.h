// Predicts the memory, disk space and time of a run. Without memory_budget, the peak is compared with
// runtime.host_memory_limit; memory_budget chooses, among the ways to compute a run, all with the same
// result, the fastest that fits.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/training_arguments.h"
#include "engine/trainer.h"
#include "run/open_model.h"
#include "run/plan/generation.h"
#include "run/plan/size.h"
#include "run/rows/batch_source.h"
#include "run/rows/rows.h"
#include "telemetry/length_profile.h"
#include "telemetry/run_plan.h"

namespace trl::run {

using telemetry::RunPlan;

struct RunToPlan {
  Environment& environment;
  const config::RunOptions& options;
  const RunModel& model;
  const Generation* generation = nullptr;  // null: none, and the run has no samples
};

// Returns the engine's plan. time: false: no times are predicted.
RunPlan plan_of(const RunToPlan& run, const RunSize& size, bool time = true,
                const config::Levers& levers = {});

// Refuses a run if the disks lack room for it, before its model is opened. batches_per_epoch: 0: not known
// yet.
void check_disks(const RunToPlan& run, int64_t batches_per_epoch);

int64_t rehearsals() noexcept;  // of a model, on this thread

inline engine::Prediction prediction_of(const RunPlan& plan) {
  return {plan.peak_bytes, plan.process_bytes, plan.kinds};
}

// Every plan leaves a little memory in the process, which belongs to no other plan: all plans report the
// process that the first one found. process: below 0 before the first.
void keep_process(RunPlan& plan, int64_t& process);

struct ExpectedPeak {
  engine::Prediction prediction;  // peak 0: not known
  RunSize size;                   // the size that the prediction is for
  int64_t least = 0;              // bytes of the process before its model is opened
};

// Predicts the peak, and logs it. Throws Error(io) if the disks lack room for the run. all_read: the rows
// have been read, so the longest of them replaces max_length. evaluation: nullable.
ExpectedPeak expected_peak(const RunToPlan& run, Batches& rows, Batches* evaluation, bool all_read);

// Predicts, at the end of the run, the peak for the largest micro-batches that it had. They are no larger
// than those of the earlier prediction. If they are not known, returns that one.
ExpectedPeak peak_of_what_ran(const RunToPlan& run, const ExpectedPeak& expected, const BatchSize& trained,
                              const BatchSize& evaluated);

// If a limit is set, refuses a run whose longest row already does not fit, before its model is opened, and
// warns of one whose largest batch may not fit. A run that cannot be planned passes. evaluation: nullable.
// Error(out_of_memory).
void check_memory_limit(const RunToPlan& run, Batches& rows, Batches* evaluation);

// Only warns about a size that the options allow but no row is known to have.
void check_memory_limit(const RunToPlan& run, const RunSize& size);

// A change that saves memory and costs time.
struct Lever {
  std::string name;  // for the log
  std::vector<std::pair<std::string, std::string>> options = {};
  bool converts = false, tiles = false;  // these two as in config::Levers
  bool leaves = false;                   // something moves from memory to a file
};

// Levers that are used together. The first decides how the inputs of backward are kept or computed again.
struct Way {
  std::vector<Lever> levers;
  std::string name() const;
  config::Config options(const config::Config& config) const;
  config::Levers settings() const;
  size_t staying() const;  // the number of levers with which nothing leaves memory; they are the first
  // Returns the way with only so many of these levers, at least one. A lever replaces an alternative that is
  // just before it.
  Way first(size_t count) const;
};

inline constexpr std::string_view kParts = "max_tokens_per_pass";

struct Allowed {
  bool parts = true;  // a micro-batch may be split into parts
  bool leaving = false;
};

// Returns each way to keep the inputs of backward that the configuration allows, the fastest first, with all
// levers that may be added to it one after another, the cheapest first. A key that is set stays. Never empty.
std::vector<Way> ways(const config::Config& config, const RunSize& size, const Allowed& allowed);

struct Choice {
  config::RunOptions options;  // with those of the way
  config::Levers levers;
  RunPlan plan;  // of that way
};
// The plans that were made, by their options and levers.
using PlansMade = std::map<std::string, RunPlan>;

// budget: resident bytes. Few ways are rehearsed: each without levers but its first, and if that does not
// fit, a binary search for the fewest levers that do. The log names the chosen way, and the bytes that the
// next faster one would have needed. Throws Error(invalid_config) with the smallest sufficient budget if no
// way fits. made: the plans of the same batches so far; new ones are added.
Choice choose_way(const RunToPlan& run, int64_t budget, const RunSize& size, PlansMade& made);

// Throws Error(invalid_config): memory_budget is below the plan's peak, and no other way takes less. Names
// the smallest sufficient budget, and the options that would lower the peak, the largest terms first.
[[noreturn]] void refuse_too_little(const config::RunOptions& options, int64_t budget, const RunPlan& plan,
                                    const Way& way);

// Returns the plan of the configuration, then those of the option sets of estimate.compare, or of the sets
// that a user is likely to try next. rows: null: not read.
std::vector<telemetry::PlannedSet> plan_run(Environment& environment, const config::Config& config,
                                            const Rows* rows);

// Predicts the peak of a training run at each max_length of a length profile. Rehearses a step of the largest
// batch at each of them; only the first is timed. The reason of a refusal becomes profile.no_peaks.
void predict_peaks(Environment& environment, telemetry::LengthProfile& profile, const config::Config& config);

}  // namespace trl::run
