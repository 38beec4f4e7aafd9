// trl_evaluator_*: a model that is measured on rows, without a run.
#include "adapter/config_file.h"
#include "base/files/files.h"
#include "base/text/number.h"
#include "capi/config_handle.h"
#include "capi/dataset/dataset_handle.h"
#include "capi/guard.h"
#include "capi/metrics_handle.h"
#include "capi/runtime/runtime.h"
#include "config/generation/generation_statements.h"
#include "config/model_options.h"
#include "config/training_arguments.h"
#include "engine/error_capture.h"
#include "run/complete/samples.h"
#include "run/open_model.h"
#include "run/rows/batch_source.h"
#include "run/rows/prepare.h"
#include "run/tokenizer.h"
#include "run/training_run.h"

namespace trl::capi {

class Evaluator {
 public:
  Evaluator(std::shared_ptr<Runtime> runtime, const config::Config& config);
  void evaluate(const Dataset& rows);  // throws Error(busy) while another call runs
  // Completes sample_prompts; the result is valid until the next call. Throws the same.
  const char* complete();
  const trl_metrics& metrics() const { return metrics_; }
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }

 private:
  run::Opening opening() const;
  void open();
  // Returns the predicted peak of the memory counter, model included; 0: not planned.
  int64_t planned(int64_t rows, int64_t longest) const;
  // taken: bytes of the evaluator that the memory counter has already.
  int64_t free_bytes(int64_t taken) const;
  void check_limit(int64_t rows, int64_t longest, int64_t taken) const;

  const std::shared_ptr<Runtime> runtime_;
  const config::RunOptions options_;
  run::RunModel from_;
  std::shared_ptr<run::Tokenizer> tokenizer_;
  bool converts_ = true;      // wider weights to bfloat16; false: memory takes them only in their files
  int64_t opened_bytes_ = 0;  // bytes of the model and its reference in the memory counter
  run::EngineObject<engine::Model> model_;
  run::EngineObject<engine::Evaluator> evaluator_;
  std::vector<run::SamplePrompt> prompts_;
  run::RequestOptions request_;  // of these
  trl_metrics metrics_;
  std::string completions_;
  std::mutex in_use_;
};

namespace {

constexpr std::string_view kReference = "ref_model_name_or_path";

constexpr const char* kLimitKey = "runtime.host_memory_limit";

// Takes an adapter's base as the model. Nothing is trained: all weights are frozen, a reference stays as it
// is, and nothing is kept for later. Rows that memory does not take go into an unnamed file.
config::Config evaluated(config::Config config) {
  config.set("model_name_or_path", run::base_path(run::needed_model(config).name(), config));
  config.set("use_peft", "true");
  for (const auto& [key, value] : {std::pair{"sync_ref_model", "false"},
                                   {"precompute_ref_log_probs", "false"},
                                   {"cache_frozen_layers", "null"}})
    if (config.is_set(key)) config.set(key, value);
  config.set("output_dir", base::temporary_directory());
  return run::with_absolute_paths(std::move(config));
}

// Says whether weights can stay in their files. They cannot if they are changed: to 8-bit products, or by an
// adapter that began as a part of them and leaves a remainder.
bool reads_in_place(const config::Config& config, const config::TrainingArguments& arguments) {
  if (arguments.frozen_compute == config::FrozenCompute::int8) return false;
  const std::string adapter = config.get_text("adapter_name_or_path").value_or("");
  if (adapter.empty()) return true;
  const config::LoraInit init = adapter::read_config(adapter).init_lora_weights;
  return init != config::LoraInit::olora && init != config::LoraInit::pissa;
}

}  // namespace

Evaluator::Evaluator(std::shared_ptr<Runtime> runtime, const config::Config& config)
    : runtime_(std::move(runtime)), options_(evaluated(config)), from_{run::needed_model(options_.config)} {
  run::refuse_tokens_beside_adapter(options_.config);
  const std::string& reference = options_.arguments.preference.reference;
  if (!reference.empty()) run::check_other_model(kReference, reference);
  std::vector<std::string> warnings = options_.config.warnings();
  for (std::string& line : config::idle_generation_options(options_.config))
    warnings.push_back(std::move(line));
  for (const std::string& warning : config::by_reason(warnings))
    runtime_->log().write(base::LogLevel::warning, "config", warning);
  tokenizer_ = run::open_training_tokenizer(options_.config, from_, runtime_->log());
  prompts_ = run::sample_prompts(options_.config, *tokenizer_);
  if (!prompts_.empty()) request_ = run::sample_request(options_.config, *tokenizer_);
  run::check_tokens_of_models(options_.arguments, tokenizer_->get());
  if (process().memory().limit() > 0) converts_ = planned(1, 1) <= free_bytes(0);
  check_limit(1, 1, 0);
  const int64_t before = process().memory().now();
  open();
  opened_bytes_ = process().memory().now() - before;
  run::leave_positions(prompts_, request_, *model_);
}

run::Opening Evaluator::opening() const {
  return {run::wanted_embedding_rows(options_.config, *tokenizer_), options_.arguments.method->scores(),
          reads_in_place(options_.config, options_.arguments), options_.arguments.bf16 && converts_};
}

void Evaluator::open() {
  const run::EngineObject<engine::Attention> attention =
      run::open_attention(*runtime_, options_, from_.source);
  model_ = run::open_model(*runtime_, from_.source, options_.config, opening());
  const engine::EvaluatorSpec spec{&options_, model_.get(), attention.get(),
                                   run::special_tokens(tokenizer_->get(), options_.config)};
  engine::Evaluator* made = nullptr;
  engine::ErrorCapture error;
  engine::Engine& engine = process().engine();
  error.check(process().use_engine(Use::open, [&] { return engine.create_evaluator(spec, &made, error); }));
  evaluator_.reset(made);
}

int64_t Evaluator::planned(int64_t rows, int64_t longest) const try {
  const std::string dtype = config::model_dtype(options_.config);
  const std::vector<int64_t> lengths(static_cast<size_t>(rows), longest);
  engine::PlanSpec spec;
  spec.options = &options_;
  spec.model = run::model_spec(from_.source, dtype, options_.config, opening());
  spec.lengths = lengths;
  int64_t counted = 0;
  engine::ErrorCapture error;
  engine::Engine& engine = process().engine();
  error.check(process().use_engine(Use::open, [&] { return engine.plan_evaluation(spec, &counted, error); }));
  return counted;
} catch (const Error& error) {
  if (error.key() == "use_cpu" || error.key() == "fused_kernels") return 0;
  throw;
}

int64_t Evaluator::free_bytes(int64_t taken) const {
  const int64_t limit = process().memory().limit();
  return limit <= 0 ? INT64_MAX : limit - (process().memory().now() - taken);
}

void Evaluator::check_limit(int64_t rows, int64_t longest, int64_t taken) const {
  const int64_t limit = process().memory().limit();
  if (limit <= 0) return;
  const int64_t free = free_bytes(taken);
  if (planned(rows, longest) <= free) return;
  const auto in_words = [](int64_t bytes) { return base::bytes_text(static_cast<double>(bytes)); };
  constexpr double kCertain = 0.9;  // a prediction may be above the bytes that are taken
  const int64_t least = planned(1, longest);
  if (kCertain * static_cast<double>(least) <= static_cast<double>(free)) {
    runtime_->log().warning("plan",
                            "{}: {} may be too little for {} rows of up to {} tokens at a time: give a "
                            "smaller per_device_eval_batch_size",
                            kLimitKey, in_words(limit), rows, longest);
    return;
  }
  throw Error(Status::out_of_memory,
              fmt::format("{}: {} is too little: the model with a row of {} token{} takes about {} ({} are "
                          "in use already): give a larger limit{}",
                          kLimitKey, in_words(limit), longest, longest == 1 ? "" : "s", in_words(least),
                          in_words(limit - free), longest == 1 ? "" : ", or a smaller max_length"),
              kLimitKey);
}

void Evaluator::evaluate(const Dataset& rows) {
  const auto lock = sole_use(in_use_, "evaluator");
  metrics_.entries.clear();
  const run::Prepared prepared =
      run::prepare_evaluation(*runtime_, options_.config, options_.arguments, tokenizer_->get(), rows);
  run::Batches& batches = *prepared.eval;
  batches.settle();
  run::check_positions(options_.config, model_->learned_positions(), batches, nullptr);
  check_limit(std::min(options_.arguments.per_device_eval_batch_size, batches.rows()), batches.longest_row(),
              opened_bytes_);
  std::span<const engine::Metric> numbers;
  engine::ErrorCapture error;
  error.check(
      process().use_engine(Use::evaluate, [&] { return evaluator_->evaluate(batches, &numbers, error); }));
  metrics_.assign(numbers);
}

const char* Evaluator::complete() {
  const auto lock = sole_use(in_use_, "evaluator");
  base::Json all = base::Json::array();
  if (!prompts_.empty()) {
    const std::vector<std::string> texts =
        run::complete_samples(*runtime_, *model_, *tokenizer_, options_.config, prompts_, request_);
    for (size_t i = 0; i < texts.size(); ++i)
      all.push_back(
          {{"prompt", prompts_[i / static_cast<size_t>(request_.count)].given}, {"completion", texts[i]}});
  }
  completions_ = all.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  return completions_.c_str();
}

}  // namespace trl::capi

struct trl_evaluator : trl::capi::Handle<trl::capi::Evaluator, trl::capi::Tag::evaluator> {
  using Handle::Handle;
};

using namespace trl::capi;

trl_status trl_evaluator_create(trl_runtime* runtime, const trl_config* config, trl_evaluator** out_evaluator,
                                trl_error** error) noexcept {
  return guard(error, out_evaluator, [&] {
    need(out_evaluator, "out_evaluator");
    const auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    *out_evaluator = new trl_evaluator(std::make_shared<Evaluator>(held, get(config, "config")->copy()));
  });
}

trl_status trl_evaluator_evaluate(trl_evaluator* evaluator, const trl_dataset* rows,
                                  const trl_metrics** out_metrics, trl_error** error) noexcept {
  return guard(error, out_metrics, [&] {
    const auto shared = get(evaluator, "evaluator");
    const auto dataset = get(rows, "rows");
    need(out_metrics, "out_metrics");
    const RuntimeScope scope(*shared->runtime());
    shared->evaluate(*dataset);
    *out_metrics = &shared->metrics();
  });
}

trl_status trl_evaluator_complete(trl_evaluator* evaluator, const char** out_json,
                                  trl_error** error) noexcept {
  return guard(error, out_json, [&] {
    const auto shared = get(evaluator, "evaluator");
    need(out_json, "out_json");
    const RuntimeScope scope(*shared->runtime());
    *out_json = shared->complete();
  });
}

void trl_evaluator_destroy(trl_evaluator* evaluator) noexcept { destroy(evaluator); }
