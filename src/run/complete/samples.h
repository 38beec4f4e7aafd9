// Completions of sample_prompts while a run trains, in the log and in samples.jsonl. They change nothing of
// the run, which continues if they fail.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/training_arguments.h"
#include "engine/model.h"
#include "engine/trainer.h"
#include "run/complete/requests.h"
#include "run/complete/sample_prompts.h"
#include "run/environment.h"
#include "run/tokenizer.h"

namespace trl::run {

// Reads generate.* and the number of new tokens; count: completions of each prompt. Throws as
// request_options() does.
RequestOptions sample_request(const config::Config& config, const Tokenizer& tokenizer);

// Throws Error(invalid_config) for a prompt that leaves the model no positions for its completion.
void leave_positions(const std::vector<SamplePrompt>& prompts, const RequestOptions& request,
                     engine::Model& model);

// Returns the completions of all prompts, request.count of each, one after the other.
std::vector<std::string> complete_samples(Environment& environment, engine::Model& model,
                                          const Tokenizer& tokenizer, const config::Config& options,
                                          const std::vector<SamplePrompt>& prompts,
                                          const RequestOptions& request);

class Samples {
 public:
  // options and model (the trained one) outlive this. Throws Error(invalid_config) for a prompt that leaves
  // it no positions.
  Samples(Environment& environment, const config::Config& options, std::string output_dir,
          std::vector<SamplePrompt> prompts, const RequestOptions& request,
          std::shared_ptr<const Tokenizer> tokenizer, engine::Model& model);
  // Throws Error, when the model has all its adapters, for a request that it would refuse.
  void check();
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
  const config::Config& options_;
  const config::SampleArguments arguments_;
  const std::string output_dir_;
  const std::vector<SamplePrompt> prompts_;
  const RequestOptions request_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  engine::Model& model_;
  std::optional<Moment> last_event_;  // nullopt: the run has not begun
  std::optional<Moment> due_;
  int64_t last_step_ = -1;  // the last with samples
};

}  // namespace trl::run
