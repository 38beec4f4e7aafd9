// sample_prompts: its prompts, read from the list or the file, and as tokens; and while a run trains, their
// completions in the log and in samples.jsonl. They change nothing of the run, which continues if they fail.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/place.h"
#include "config/config.h"
#include "config/training_arguments.h"
#include "engine/engine.h"
#include "run/complete/requests.h"
#include "run/environment.h"
#include "run/tokenizer.h"

namespace trl::run {

struct SamplePrompt {
  std::string where;  // for messages: "sample_prompts: prompts.jsonl:3"
  base::Json given;   // a text, or a list of messages
  base::Json tools;   // for a conversation: a list, or null
  std::vector<int32_t> ids = {};
  Place place = {};  // in a file
};

// Reads the prompts, without ids. Empty if no samples are requested. Throws Error that names the key for a
// file that cannot be read, and for an invalid prompt.
std::vector<SamplePrompt> read_sample_prompts(const config::SampleArguments& arguments);

// Reads and encodes them. Throws the same for a prompt that the tokenizer or its chat template does not take.
std::vector<SamplePrompt> sample_prompts(const config::Config& config, const Tokenizer& tokenizer);

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
