#include "run/complete/samples.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/utf8.h"
#include "config/generation/generation_kwargs.h"
#include "engine/error_capture.h"
#include "run/complete/complete.h"
#include "run/complete/open_generator.h"
#include "run/complete/request_options.h"
#include "telemetry/recorder.h"

namespace trl::run {

namespace {

// Completes the prompts, and releases the memory of keys and values, because an update may follow. The
// trainer's own generators use the same memory.
std::vector<Completion> completed(Requests requests, std::span<const std::vector<int32_t>> prompts,
                                  const RequestOptions& options) {
  std::vector<Completion> all;
  try {
    all = complete(requests, prompts, options);
  } catch (...) {
    requests.release_memory();
    throw;
  }
  requests.release_memory();
  return all;
}

// Returns at most this many characters of a text, on one line.
std::string beginning(const std::string& text, size_t characters) {
  const std::string line = base::one_line(text);
  size_t end = 0;
  for (size_t i = 0; i < characters && end < line.size(); ++i) base::next_code_point(line, end);
  return fmt::format("'{}{}'", line.substr(0, end), end < line.size() ? "..." : "");
}

}  // namespace

RequestOptions sample_request(const config::Config& config, const Tokenizer& tokenizer) {
  const config::Config options = config::with_generation_kwargs(config);
  RequestOptions request = config::with_entry_names(config, "generate.generation_kwargs",
                                                    [&] { return request_options(options, tokenizer); });
  request.sampling.max_new_tokens = config::sample_arguments(config).max_new_tokens;
  request.sampling.log_probabilities = request.keeps = false;
  request.sampling.best = 0;
  request.sampling.prompt_best = -1;
  request.count = completions_of(options);
  return request;
}

std::vector<std::string> complete_samples(Environment& environment, engine::Model& model,
                                          const Tokenizer& tokenizer, const config::Config& options,
                                          const std::vector<SamplePrompt>& prompts,
                                          const RequestOptions& request) {
  std::vector<std::vector<int32_t>> ids;
  for (const SamplePrompt& prompt : prompts)
    ids.insert(ids.end(), static_cast<size_t>(request.count), prompt.ids);
  std::vector<std::string> completions;
  for (Completion& one :
       completed(open_requests(environment, model, tokenizer, training_generator_spec(environment, options)),
                 ids, request)) {
    const SamplePrompt& prompt = prompts[completions.size() / static_cast<size_t>(request.count)];
    if (one.end == End::failed) fail(Status::invalid_argument, "{}: {}", prompt.where, one.error);
    completions.push_back(std::move(one.text));
  }
  return completions;
}

void leave_positions(const std::vector<SamplePrompt>& prompts, const RequestOptions& request,
                     engine::Model& model) {
  const int64_t max_new_tokens = request.sampling.max_new_tokens;
  const int64_t positions = model.positions();
  for (const SamplePrompt& prompt : prompts) {
    const auto tokens = static_cast<int64_t>(prompt.ids.size());
    if (tokens + max_new_tokens <= positions) continue;
    placed(prompt.place, [&] {
      fail_key("sample_prompts",
               "{}: the prompt has {} tokens, and with {} new ones (sample_max_new_tokens) it goes beyond "
               "the {} positions of the model: give a shorter prompt or fewer new tokens",
               prompt.where, tokens, max_new_tokens, positions);
    });
  }
}

Samples::Samples(Environment& environment, const config::Config& options, std::string output_dir,
                 std::vector<SamplePrompt> prompts, const RequestOptions& request,
                 std::shared_ptr<const Tokenizer> tokenizer, engine::Model& model)
    : environment_(environment),
      options_(options),
      arguments_(config::sample_arguments(options)),
      output_dir_(std::move(output_dir)),
      prompts_(std::move(prompts)),
      request_(request),
      tokenizer_(std::move(tokenizer)),
      model_(model) {
  leave_positions(prompts_, request_, model_);
}

void Samples::check() {
  engine::ErrorCapture error;
  with_option_names([&] {
    error.check(environment_.use_engine(Use::generate,
                                        [&] { return model_.check_sampling(request_.sampling, error); }));
  });
}

bool Samples::is_time(const engine::Event& event) const {
  using engine::EventKind;
  if (arguments_.steps) return event.kind == EventKind::step && event.step % *arguments_.steps == 0;
  return event.kind == EventKind::evaluate || (event.kind == EventKind::save && !arguments_.evaluates);
}

void Samples::on_event(const engine::Event& event) {
  if (event.kind == engine::EventKind::train_begin)
    begin(event);
  else if (last_event_ && is_time(event) && event.step != last_step_)
    due_ = Moment{event.step, event.epoch};
  if (!last_event_) return;  // an evaluation before the run
  last_event_ = Moment{event.step, event.epoch};
  try {
    take_due();
  } catch (const Error&) {
    return;  // cancelled: the call itself ends with that, and the next one takes them
  }
}

// Begins the file. A new run starts it anew. A resumed one continues it; if its checkpoint was saved just
// before the samples of that step were taken, they are taken now.
void Samples::begin(const engine::Event& event) {
  last_event_ = Moment{event.step, event.epoch};
  const std::string path = telemetry::samples_path(output_dir_);
  std::string kept;
  try {
    if (event.step > 0) {
      for (const telemetry::Sample& sample : telemetry::read_samples(path)) {
        if (sample.step > event.step) continue;
        kept += telemetry::sample_line(sample);
        last_step_ = sample.step;
      }
    }
    base::make_directories(output_dir_);
    base::replace_file(path, kept);
  } catch (const Error& error) {
    environment_.log().warning("samples", "sample_prompts: {}; the run continues", error.message());
  }
  const bool sampled = arguments_.steps ? event.step % *arguments_.steps == 0 : !arguments_.evaluates;
  if (event.step > 0 && sampled && last_step_ < event.step) due_ = last_event_;
}

void Samples::take_due() {
  if (!due_) return;
  const auto tell = [&](std::string_view why) {
    environment_.log().warning("samples",
                               "sample_prompts: there are no samples of step {}, and the run continues: {}",
                               due_->step, why);
  };
  try {
    take();
  } catch (const Error& error) {
    if (error.status() == Status::cancelled) throw;
    tell(error.message());
  } catch (const std::exception& error) {
    tell(error.what());
  }
  last_step_ = due_->step;
  due_.reset();
}

void Samples::take_last() {
  if (last_event_ && last_event_->step != last_step_) due_ = last_event_;
  take_due();
}

void Samples::take() {
  write(*due_, complete_samples(environment_, model_, *tokenizer_, options_, prompts_, request_));
}

void Samples::write(const Moment& now, const std::vector<std::string>& completions) const {
  constexpr size_t kPromptLength = 24, kCompletionLength = 48;  // of a line of the log
  std::string lines;
  for (size_t i = 0; i < completions.size(); ++i) {
    const base::Json& given = prompts_[i / static_cast<size_t>(request_.count)].given;
    const base::Json asked = given.is_array() ? base::Json::array({given.back()}) : given;
    environment_.log().info("samples", "sample of step {}: {} -> {}", now.step,
                            beginning(telemetry::prompt_text(asked), kPromptLength),
                            beginning(completions[i], kCompletionLength));
    lines += telemetry::sample_line({now.step, now.epoch, given, completions[i]});
  }
  base::append_file(telemetry::samples_path(output_dir_), lines);
}

}  // namespace trl::run
