// sample_prompts while a run trains: completions in the log and in samples.jsonl. They change nothing of the
// run, which continues if they fail.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/engine.h"
#include "run/complete/sample_prompts.h"
#include "run/environment.h"
#include "run/tokenizer.h"

namespace trl::run {

class Samples {
 public:
  // model: the trained one, which outlives this. Throws Error(invalid_config) for a prompt that leaves it no
  // positions.
  Samples(Environment& environment, config::SampleArguments arguments, std::string output_dir,
          std::vector<SamplePrompt> prompts, std::shared_ptr<const Tokenizer> tokenizer,
          engine::Model& model);
  // Handles an event of the run, on the thread of its step, when the weights are those of the event's step.
  void on_event(const engine::Event& event);
  void take_due();   // takes the samples that a cancelled call left; throws Error(cancelled)
  void take_last();  // at the end of the run; throws the same

 private:
  struct Moment {
    int64_t step;
    double epoch;
  };
  bool is_time(const engine::Event& event) const;
  void begin(const engine::Event& event);
  void take();
  void write(const Moment& now, const std::vector<std::string>& completions) const;

  Environment& environment_;
  const config::SampleArguments arguments_;
  const std::string output_dir_;
  const std::vector<SamplePrompt> prompts_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  engine::Model& model_;
  std::optional<Moment> last_event_;  // nullopt: the run has not begun
  std::optional<Moment> due_;
  int64_t last_step_ = -1;  // the last with samples
};

}  // namespace trl::run
