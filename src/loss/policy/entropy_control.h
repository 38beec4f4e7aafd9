// The coefficient of an entropy bonus that is there only while the policy's entropy is low (Skywork-OR1, He
// et al. 2025). As in TRL's GRPOTrainer with use_adaptive_entropy.
#pragma once
#include <optional>
#include <string_view>

#include "base/json/json.h"

namespace trl::loss {

struct EntropyOptions {
  double coef = 0;  // at the start
  double least = 0, most = 1, delta = 0.005;
  double target = 0.2;  // entropy of a token in nats; the bonus counts up to there
};

class EntropyControl {
 public:
  explicit EntropyControl(const EntropyOptions& options) : options_(options), coef_(options.coef) {}

  // The coefficient of the bonus in this optimizer step; 0 in the first.
  double applied() const { return last_ && *last_ <= options_.target ? coef_ : 0; }
  // Adds the entropies of a micro-batch: their sum, and how many.
  void add(double sum, double tokens) {
    sum_ += sum;
    tokens_ += tokens;
  }
  // Ends the optimizer step: moves the coefficient by delta, up if the mean entropy of the step is at most
  // the target. A step without tokens changes nothing.
  void end_step();

  // TRL's entropy_ctrl_state.json between two optimizer steps: entropy_coef, last_world_entropy (null: none).
  base::Json state() const;
  // Throws Error(format), with `origin` and the key, if it is not such a state.
  void restore(const base::Json& state, std::string_view origin);

 private:
  EntropyOptions options_;
  double coef_;
  std::optional<double> last_;  // mean entropy of the last step
  double sum_ = 0, tokens_ = 0;
};

}  // namespace trl::loss
