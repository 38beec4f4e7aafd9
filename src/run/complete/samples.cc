#include "run/complete/samples.h"

#include "base/files/files.h"
#include "base/text/utf8.h"
#include "config/training_arguments.h"
#include "run/complete/complete.h"
#include "telemetry/samples.h"

namespace trl::run {

namespace {

std::vector<std::vector<int32_t>> ids_of(const std::vector<SamplePrompt>& prompts) {
  std::vector<std::vector<int32_t>> ids;
  for (const SamplePrompt& prompt : prompts) ids.push_back(prompt.ids);
  return ids;
}

// Returns at most this many characters of a text, on one line.
std::string beginning(const std::string& text, size_t characters) {
  const std::string line = base::one_line(text);
  size_t end = 0;
  for (size_t i = 0; i < characters && end < line.size(); ++i) base::next_code_point(line, end);
  return fmt::format("'{}{}'", line.substr(0, end), end < line.size() ? "..." : "");
}

}  // namespace

Samples::Samples(Environment& environment, config::SampleArguments arguments, std::string output_dir,
                 std::vector<SamplePrompt> prompts, std::shared_ptr<const Tokenizer> tokenizer,
                 engine::Model& model)
    : environment_(environment),
      arguments_(std::move(arguments)),
      output_dir_(std::move(output_dir)),
      prompts_(std::move(prompts)),
      tokenizer_(std::move(tokenizer)),
      model_(model) {
  check_positions(prompts_, arguments_.max_new_tokens, base::parse_json(model_.config_json(), "config.json"));
}

bool Samples::is_time(const engine::Event& event) const {
  using engine::EventKind;
  if (arguments_.steps) return event.kind == EventKind::step && event.step % *arguments_.steps == 0;
  return event.kind == EventKind::evaluate || (event.kind == EventKind::save && !arguments_.evaluates);
}

void Samples::on_event(const engine::Event& event) {
  if (event.kind == engine::EventKind::train_begin) {
    begin(event);
  } else if (last_event_ && is_time(event) && event.step != last_step_) {
    due_ = Moment{event.step, event.epoch};
  }
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
  engine::Sampling sampling;
  sampling.max_new_tokens = arguments_.max_new_tokens;
  std::vector<std::string> completions;
  for (Completion& one : complete(environment_, model_, *tokenizer_, ids_of(prompts_), sampling, {}))
    completions.push_back(std::move(one.text));
  write(*due_, completions);
}

void Samples::write(const Moment& now, const std::vector<std::string>& completions) const {
  constexpr size_t kPromptLength = 24, kCompletionLength = 48;  // of a line of the log
  std::string lines;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    const base::Json& given = prompts_[i].given;
    const base::Json asked = given.is_array() ? base::Json::array({given.back()}) : given;
    environment_.log().info("samples", "sample of step {}: {} -> {}", now.step,
                            beginning(telemetry::prompt_text(asked), kPromptLength),
                            beginning(completions[i], kCompletionLength));
    lines += telemetry::sample_line({now.step, now.epoch, given, completions[i]});
  }
  base::append_file(telemetry::samples_path(output_dir_), lines);
}

}  // namespace trl::run
