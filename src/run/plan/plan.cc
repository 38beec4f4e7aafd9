#include "run/plan/plan.h"

#include "base/error.h"
#include "config/model_dtype.h"
#include "config/quantization.h"
#include "engine/error_capture.h"
#include "run/open_model.h"
#include "run/training_run.h"

namespace trl::run {

namespace {

constinit thread_local int64_t rehearsed_so_far = 0;

class Text final : public engine::TextSink {
 public:
  void set(std::string_view text) override { text_ = text; }
  const std::string& get() const { return text_; }

 private:
  std::string text_;
};

// Refuses a micro-batch too large to write its ids out for the rehearsal.
void need_countable(const RunSize& size) {
  constexpr int64_t kMost = int64_t{1} << 24;
  if (size.longest <= kMost / std::max<int64_t>(1, size.rows)) return;
  fail_key(
      "per_device_train_batch_size",
      "per_device_train_batch_size: {} rows of {} tokens are more than the {} tokens that one micro-batch "
      "can have in a plan: give fewer rows, or a smaller max_length",
      size.rows, size.longest, kMost);
}

// Describes a run for the engine.
struct Told {
  Told(const config::RunOptions& options, int64_t embedding_rows, const std::vector<int32_t>& new_tokens)
      : path(needed_model_path(options.config)), dtype(config::model_dtype(options.config)) {
    spec.options = &options;
    spec.model = model_spec(path, dtype, options.config, {embedding_rows});
    spec.new_tokens = new_tokens;
    ++rehearsed_so_far;
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  const std::string path, dtype;
  engine::PlanSpec spec;
};

}  // namespace

int64_t rehearsals() noexcept { return rehearsed_so_far; }

base::Json plan_of(Environment& environment, const config::RunOptions& options, const RunSize& size,
                   int64_t embedding_rows, const std::vector<int32_t>& new_tokens, bool time,
                   const config::Levers& levers) {
  need_countable(size);
  const std::vector<int64_t> lengths(static_cast<size_t>(size.rows), size.longest);
  Told told(options, embedding_rows, new_tokens);
  engine::PlanSpec& spec = told.spec;
  spec.lengths = lengths;
  spec.longest_allowed = size.allowed;
  spec.eval_longest = size.eval_longest;
  spec.levers = levers;
  spec.steps = size.steps;
  spec.tokens = size.tokens;
  spec.epoch_tokens = size.epoch_tokens;
  spec.time = time;
  spec.disks = size.batches.has_value();
  spec.batches_per_epoch = size.batches.value_or(0);
  Text json;
  engine::ErrorCapture error;
  engine::Engine& engine = environment.engine();
  error.check(environment.use_engine(Use::open, [&] { return engine.plan(spec, json, error); }));
  return base::parse_json(json.get(), "plan");
}

void check_disks(Environment& environment, const config::RunOptions& options, int64_t embedding_rows,
                 const std::vector<int32_t>& new_tokens, int64_t batches_per_epoch) {
  const Told told(options, embedding_rows, new_tokens);
  engine::ErrorCapture error;
  engine::Engine& engine = environment.engine();
  error.check(environment.use_engine(
      Use::open, [&] { return engine.check_disks(told.spec, batches_per_epoch, error); }));
}

engine::Prediction prediction_of(const base::Json& plan) {
  engine::Prediction out;
  out.peak = plan.at("peak_bytes").get<int64_t>();
  out.process = plan.at("process_bytes").get<int64_t>();
  for (int32_t i = 0; i < base::kMemoryKinds; ++i) {
    out.kinds[static_cast<size_t>(i)] =
        plan.at("kinds")
            .at(std::string(base::memory_kind_name(static_cast<base::MemoryKind>(i))))
            .get<int64_t>();
  }
  return out;
}

void keep_process(base::Json& plan, int64_t& process) {
  const auto now = plan.at("process_bytes").get<int64_t>();
  if (process < 0) process = now;
  plan["process_bytes"] = process;
  plan["peak_bytes"] = plan.at("peak_bytes").get<int64_t>() - now + process;
  base::Json& term = plan.at("terms").at(0);
  term["bytes"] = term["most_bytes"] = process;
  for (base::Json& moment : plan.at("timeline")) moment.at("bytes").at(0) = process;
}

}  // namespace trl::run
