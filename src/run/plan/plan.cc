#include "run/plan/plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/number.h"
#include "config/model_options.h"
#include "engine/error_capture.h"
#include "run/plan/memory_budget.h"

namespace trl::run {

namespace {

constinit thread_local int64_t rehearsed_so_far = 0;

class Plan final : public engine::PlanSink {
 public:
  void set(const RunPlan& plan) override { plan_ = plan; }
  RunPlan take() { return std::move(plan_); }

 private:
  RunPlan plan_;
};

// Refuses a micro-batch too large to write its ids out for the rehearsal.
void need_countable(const RunSize& size) {
  constexpr int64_t kMost = int64_t{1} << 24;
  if (size.longest <= kMost / std::max<int64_t>(1, size.rows)) return;
  fail_key("per_device_train_batch_size",
           "per_device_train_batch_size: {} rows of {} tokens are more than the {} tokens that one "
           "micro-batch can have in a plan: give fewer rows, or a smaller max_length",
           size.rows, size.longest, kMost);
}

// Describes a run for the engine.
struct Told {
  explicit Told(const RunToPlan& run) : dtype(config::model_dtype(run.options.config)) {
    spec.options = &run.options;
    spec.model = model_spec(run.model.source, dtype, run.options.config, {run.model.embedding_rows});
    spec.new_tokens = run.model.new_tokens;
    ++rehearsed_so_far;
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  const std::string dtype;
  engine::PlanSpec spec;
};

using base::bytes_text;

constexpr const char* kLimitKey = "runtime.host_memory_limit";

// Returns the plan without times; nullopt: such a run is not planned.
std::optional<RunPlan> plan_where_possible(const RunToPlan& run, const RunSize& size) try {
  return plan_of(run, size, false);
} catch (const Error& error) {
  if (error.key() == "use_cpu" || error.key() == "fused_kernels") return std::nullopt;
  throw;
}

// A run that cannot be computed either says so itself.
std::optional<RunPlan> plan_or_nothing(const RunToPlan& run, const RunSize& size) try {
  return plan_where_possible(run, size);
} catch (const Error& error) {
  if (error.status() == Status::cancelled || error.status() == Status::callback) throw;
  run.environment.log().write(base::LogLevel::debug, "plan",
                              fmt::format("no peak is predicted: {}", error.message()));
  return std::nullopt;
}

bool is_bounded(const RunToPlan& run) { return row_limit(run.options.config).has_value(); }

// Returns the size by the rows, or else by max_length; nullopt: neither is known.
std::optional<RunSize> known_size(const RunToPlan& run, Batches& rows, Batches* evaluation, bool by_rows) {
  const auto& [config, training] = run.options;
  std::optional<RunSize> size;
  if (by_rows) size = size_of_rows(config, training, rows, evaluation);
  if (!size && is_bounded(run)) size = largest_batch(config, training);
  return size;
}

int64_t free_bytes(base::MemoryCounter& memory) { return memory.limit() - memory.now(); }

// Returns the predicted peak of the counter; 0: such a run is not planned.
int64_t taken_bytes(const RunToPlan& run, const RunSize& size) {
  const std::optional<RunPlan> plan = plan_where_possible(run, size);
  return plan ? plan->counted_bytes : 0;
}

}  // namespace

int64_t rehearsals() noexcept { return rehearsed_so_far; }

RunPlan plan_of(const RunToPlan& run, const RunSize& size, bool time, const config::Levers& levers) {
  need_countable(size);
  const std::vector<int64_t> lengths(static_cast<size_t>(size.rows), size.longest);
  Told told(run);
  engine::PlanSpec& spec = told.spec;
  spec.lengths = lengths;
  spec.longest_allowed = size.allowed;
  spec.eval_longest = size.eval_longest;
  spec.levers = levers;
  spec.steps = size.steps;
  spec.tokens = size.tokens;
  spec.epoch_tokens = size.epoch_tokens;
  spec.time = time;
  spec.batches_per_epoch = size.batches;
  if (const Generation* const generation = run.generation) {
    spec.generator = generation->spec;
    spec.rollouts = generation->of_rollouts;
    spec.samples = generation->of_samples;
    spec.asked = generation->of_asked;
  }
  Plan plan;
  engine::ErrorCapture error;
  engine::Engine& engine = run.environment.engine();
  error.check(run.environment.use_engine(Use::open, [&] { return engine.plan(spec, plan, error); }));
  return plan.take();
}

void check_disks(const RunToPlan& run, int64_t batches_per_epoch) {
  Told told(run);
  told.spec.batches_per_epoch = batches_per_epoch;
  engine::ErrorCapture error;
  engine::Engine& engine = run.environment.engine();
  error.check(run.environment.use_engine(Use::open, [&] { return engine.check_disks(told.spec, error); }));
}

void keep_process(RunPlan& plan, int64_t& process) {
  if (process < 0) process = plan.process_bytes;
  plan.set_process(process);
}

ExpectedPeak expected_peak(const RunToPlan& run, Batches& rows, Batches* evaluation, bool all_read) {
  std::optional<RunSize> size = known_size(run, rows, evaluation, all_read || !is_bounded(run));
  if (!size) return {};
  size->batches = all_read ? rows.batches_per_epoch() : 0;
  const std::optional<RunPlan> plan = plan_or_nothing(run, *size);
  if (!plan) return {};
  if (const auto& refused = plan->disk.refused) throw Error(Status::io, refused->message, refused->key);
  const engine::Prediction prediction = prediction_of(*plan);
  ExpectedPeak out = {prediction, *size, prediction.process};
  out.size.longest = plan->row_tokens;
  out.size.batches.reset();
  for (const RunPlan::Term& term : plan->terms)
    if (term.name == "start of the process") out.least += term.most_bytes;
  base::LogSink& log = run.environment.log();
  log.write(base::LogLevel::info, "plan",
            fmt::format("a peak of {} is predicted for the process ({} of up to {} at a time)",
                        bytes_text(prediction.peak), base::quantity(out.size.rows, "row"),
                        base::quantity(out.size.longest, "token")));
  if (const auto room = memory_room(prediction.peak); room.warning) log.warning("plan", "{}", *room.warning);
  return out;
}

ExpectedPeak peak_of_what_ran(const RunToPlan& run, const ExpectedPeak& expected, const BatchSize& trained,
                              const BatchSize& evaluated) {
  const BatchSize planned = {expected.size.rows, expected.size.longest};
  if (expected.prediction.peak == 0 || trained.tokens() == 0 || trained.tokens() >= planned.tokens() ||
      run.options.config.get_bool("packing"))
    return expected;
  ExpectedPeak ran = expected;
  ran.size.rows = trained.rows;
  ran.size.longest = trained.longest;
  ran.size.eval_longest = evaluated.longest;
  ran.size.allowed = false;
  try {
    const std::optional<RunPlan> plan = plan_where_possible(run, ran.size);
    if (!plan) return expected;
    ran.prediction = prediction_of(*plan);
  } catch (const Error&) {
    return expected;
  }
  // The process before the run, without the model that is open now.
  const int64_t before = expected.prediction.process;
  ran.prediction.peak = std::max(ran.least, ran.prediction.peak - ran.prediction.process + before);
  ran.prediction.process = before;
  return ran;
}

void check_memory_limit(const RunToPlan& run, const RunSize& size) {
  const int64_t limit = run.environment.memory().limit();
  if (limit <= 0) return;
  const int64_t free = free_bytes(run.environment.memory()), most = taken_bytes(run, size);
  if (most <= free) return;
  constexpr double kCertain = 0.9;  // a prediction may be above the bytes that are taken
  if (!size.allowed) {
    RunSize alone = size;
    alone.rows = 1;
    if (const int64_t least = taken_bytes(run, alone);
        kCertain * static_cast<double>(least) > static_cast<double>(free)) {
      throw Error(Status::out_of_memory,
                  fmt::format("{}: {} is too little: the longest row of this run has {}, and a step with it "
                              "alone takes about {} ({} are in use already): give a larger limit, a smaller "
                              "max_length, or memory_budget, which finds a way that fits",
                              kLimitKey, bytes_text(limit), base::quantity(size.longest, "token"),
                              bytes_text(least), bytes_text(limit - free)),
                  kLimitKey);
    }
  }
  run.environment.log().warning("plan",
                                "{}: {} may be too little: the largest batch of this run ({} of up to {}) "
                                "takes about {}; memory_budget would find a way that fits",
                                kLimitKey, bytes_text(limit), base::quantity(size.rows, "row"),
                                base::quantity(size.longest, "token"), bytes_text(most));
}

void check_memory_limit(const RunToPlan& run, Batches& rows, Batches* evaluation) {
  if (run.environment.memory().limit() <= 0) return;
  const auto& [config, training] = run.options;
  if (is_bounded(run) &&
      taken_bytes(run, largest_batch(config, training)) <= free_bytes(run.environment.memory()))
    return;  // without waiting for the rows
  if (const std::optional<RunSize> size = known_size(run, rows, evaluation, true))
    check_memory_limit(run, *size);
}

}  // namespace trl::run
