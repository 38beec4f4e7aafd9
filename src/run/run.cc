#include "run/run.h"

#include "base/error.h"
#include "base/memory/system_memory.h"
#include "base/text/number.h"
#include "config/generation/trainer_generation.h"
#include "engine/error_capture.h"
#include "run/complete/open_generator.h"
#include "run/convert_model.h"
#include "run/open_model.h"
#include "run/rows/batch_source.h"
#include "run/training_run.h"

namespace trl::run {

namespace {

// Says first that the model is missing.
config::Config of_model(config::Config config) {
  needed_model(config);
  return config;
}

}  // namespace

Run::Run(Environment& environment, config::Config config, const Rows& train, const Rows* eval)
    : environment_(environment),
      read_before_(config::times_read()),
      rehearsed_before_(rehearsals()),
      options_(of_model(with_whole_paths(std::move(config)))),
      model_{needed_model(options_.config)},
      budget_(memory_budget(environment, options_.config)) {
  const config::TrainingArguments& arguments = options_.arguments;
  if (eval == nullptr) config::refuse_evaluation(arguments);
  check_run(environment_, options_);
  tell_options(environment_.log(), options_.config);
  attention_ = open_attention(environment_, options_, model_.source);
  tokenizer_ = open_training_tokenizer(options_.config, model_, environment_.log());
  check_tokens_of_models(arguments, tokenizer_->get());
  prompts_ = sample_prompts(options_.config, *tokenizer_);
  if (!prompts_.empty()) sample_request_ = sample_request(options_.config, *tokenizer_);
  rows_ = prepare(environment_, options_.config, arguments, model_.source, tokenizer_->get(), train, eval);
  if (rows_.train_prompts) {
    rollouts_ = std::make_unique<Rollouts>(environment_, options_, rows_, tokenizer_);
    need_generation(*rows_.train_prompts, arguments.online);
    rollouts_->rewards().check_columns(rows_.train_prompts->prompt(0));
  }
  model_.embedding_rows = wanted_embedding_rows(options_.config, *tokenizer_);
  const int64_t longest = rows_.train_prompts ? rows_.train_prompts->longest() : 0;
  generation_ = generation_of(environment_, options_.config, prompts_, longest);
  if (budget_) choose_way();
  plan();
}

void Run::choose_way() {
  PlansMade made;
  const RunSize size = largest_batch(options_.config, options_.arguments, *rows_.train, rows_.eval.get());
  choice_ = run::choose_way(to_plan(), *budget_, size, made);
  expected_.prediction = prediction_of(choice_->plan);
  cap_.emplace(*budget_, expected_.prediction, environment_.memory());
}

// Compares memory and disks with the run before weights are in memory. Without limits the model is opened in
// rehearsal once; the disks' refusal comes before that of a limit.
void Run::plan() {
  const config::TrainingArguments& arguments = options_.arguments;
  const bool all_read = arguments.max_steps <= 0 || arguments.save_strategy == config::Strategy::epoch;
  if (all_read) rows_.train->settle();
  const RunToPlan run = to_plan();
  const auto compare_disks = [&] { check_disks(run, all_read ? rows_.train->batches_per_epoch() : 0); };
  const bool limited = budget_ || environment_.memory().limit() > 0;
  if (limited) compare_disks();
  if (budget_) return;
  check_memory_limit(run, *rows_.train, rows_.eval.get());
  expected_ = expected_peak(run, *rows_.train, rows_.eval.get(), all_read);
  if (expected_.prediction.peak == 0 && !limited) compare_disks();
}

EngineObject<engine::Model> Run::open_model() {
  return run::open_model(environment_, model_.source, options_.config,
                         {model_.embedding_rows, options_.arguments.method->scores()});
}

std::unique_ptr<Samples> Run::open_samples(engine::Model& model) {
  if (prompts_.empty()) return nullptr;
  return std::make_unique<Samples>(environment_, options_.config, options_.arguments.output_dir, prompts_,
                                   sample_request_, tokenizer_, model);
}

EngineObject<engine::Trainer> Run::create_trainer(engine::Model& model, engine::EventSink& events) {
  rows_.train->settle();
  if (rows_.eval) settle_evaluation();
  check_positions(options_.config, model.learned_positions(), *rows_.train, rows_.eval.get());
  const auto files = tokenizer_->get().files();
  std::vector<engine::NamedBytes> named;
  for (const auto& [name, bytes] : files) named.push_back({name, bytes});
  engine::TrainerSpec spec;
  spec.options = &chosen();
  spec.model = &model;
  spec.attention = attention_.get();
  if (rollouts_) {
    spec.rollouts = &rollouts_->spec(environment_, model);
  } else {
    spec.train = rows_.train.get();
    spec.eval = rows_.eval.get();
  }
  spec.events = &events;
  spec.files = named;
  std::optional<EncodedVocabulary> vocabulary;
  if (options_.arguments.save_format == config::SaveFormat::gguf) {
    const base::Json model_config = base::parse_json(model.config_json(), "config.json");
    vocabulary.emplace(tokenizer_->get(), embedding_rows(model_config, model_.source.name()),
                       model_.source.name(), environment_.log());
    spec.vocabulary = vocabulary->view();
  }
  spec.tokens = special_tokens(tokenizer_->get(), options_.config);
  spec.new_tokens = model_.new_tokens;
  if (choice_) spec.levers = choice_->levers;
  told_ = expected_;
  spec.prediction = &told_.prediction;
  engine::Trainer* made = nullptr;
  engine::ErrorCapture error;
  engine::Engine& engine = environment_.engine();
  error.check(environment_.use_engine(Use::open, [&] { return engine.create_trainer(spec, &made, error); }));
  attention_.reset();
  environment_.log().write(base::LogLevel::debug, "run",
                           fmt::format("the options were read {} and the model was opened in rehearsal {}",
                                       base::quantity(config::times_read() - read_before_, "time"),
                                       base::quantity(rehearsals() - rehearsed_before_, "time")));
  return EngineObject<engine::Trainer>(made);
}

Prepared Run::prepare_evaluation(const Rows& rows, engine::Model& model) const {
  if (rollouts_)
    fail(Status::unsupported,
         "method {} evaluates completions, and the rewards and the order of their prompts belong to the "
         "evaluation rows that the trainer was created with: give NULL for rows",
         options_.arguments.method->name);
  if (options_.arguments.preference.precompute_ref_log_probs)
    throw Error(
        Status::unsupported,
        "precompute_ref_log_probs: true keeps what the reference says of the rows that the trainer was "
        "created with, and no reference for others: give NULL for rows, or leave the option out",
        "precompute_ref_log_probs");
  Prepared prepared = run::prepare_evaluation(environment_, options_.config, options_.arguments,
                                              tokenizer_->get(), rows, rows_.completion_only_loss);
  prepared.eval->settle();
  check_positions(options_.config, model.learned_positions(), *prepared.eval, nullptr);
  return prepared;
}

Rollouts& Run::rollouts() {
  if (rollouts_) return *rollouts_;
  fail(Status::invalid_argument, "method {} writes no completions, and has no use for functions of the host",
       options_.arguments.method->name);
}

void Run::settle_evaluation() {
  rows_.eval->settle();
  if (rows_.eval->batches_per_epoch() != 0) return;
  const int64_t rows = rows_.eval->rows();
  const int64_t each =
      rollouts_ ? config::completions_of_prompt(options_.config, config::Completions::of_evaluation) : 1;
  const std::string why =
      rows == 0 ? "nothing is left of the evaluation rows"
                : fmt::format("dataloader_drop_last: the {} evaluation rows{} are fewer than one batch of {}",
                              rows, each > 1 ? fmt::format(", each with {} completions,", each) : "",
                              options_.config.get("per_device_eval_batch_size"));
  environment_.log().warning("data", "{}: evaluations report no metrics except their time", why);
}

void Run::predict_what_ran() {
  if (cap_) return;
  told_ = peak_of_what_ran(to_plan(), expected_, rows_.train->largest(),
                           rows_.eval ? rows_.eval->largest() : BatchSize());
}

// The memory of the process may include memory of other work.
void Run::tell() {
  rows_.train->tell();
  if (rollouts_) rollouts_->rewards().tell();
  if (told_.prediction.peak == 0) return;
  const auto both = [](int64_t predicted, int64_t measured) {
    return fmt::format("{} ({})", base::bytes_text(measured), base::bytes_text(predicted));
  };
  std::string of;
  if (told_.size.rows > 0)
    of = fmt::format(" of {} of up to {} at a time", base::quantity(told_.size.rows, "row"),
                     base::quantity(told_.size.longest, "token"));
  std::string line = fmt::format("measured peak, and in parentheses the predicted one{}: resident {}", of,
                                 both(told_.prediction.peak, base::peak_resident_bytes()));
  for (int32_t i = 0; cap_ && i < base::kMemoryKinds; ++i) {
    const auto kind = static_cast<base::MemoryKind>(i);
    line += fmt::format(", {} {}", base::measured_kind_name(kind),
                        both(told_.prediction.kinds[static_cast<size_t>(i)], cap_->most(kind)));
  }
  environment_.log().write(base::LogLevel::info, "plan", line);
}

}  // namespace trl::run
