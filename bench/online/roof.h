// The least time that a step of online training takes on a machine.
#pragma once
#include "train/sft_report.h"

namespace trl::bench {

// A group of completions of one prompt, in one type throughout.
struct OnlineStep {
  double prompt = 0, group = 0, longest = 0;  // tokens, completions, tokens of the longest completion
  double written = 0;                         // tokens of all completions
  double adapter = 0;                         // parameters of the one that is trained; 0: all weights are
  bool wide = true;                           // float32, not bfloat16
  bool reference = false;                     // its log-probabilities are computed before the update
};

// Operations by a forward and a backward that compute the prompt once: 4 for each frozen weight and token, 6
// for each trained one, the head only at the completions' tokens, and 14 L d for each pair of tokens that
// attention relates (recomputed once). machine: the last line of gemm_bench.
double update_roof(const Architecture& model, const OnlineStep& step, const Json& machine);

// A forward that computes the prompt once: 2 for each weight and token, and 4 L d for each of the pairs; 0
// without a reference. The adapter is not in it.
double reference_roof(const Architecture& model, const OnlineStep& step, const Json& machine);

// Prefill of one prompt, and then for each token of the longest completion either the weights are read or
// all rows are multiplied by them, whichever takes longer. The cache is not counted.
double generation_roof(const Architecture& model, const OnlineStep& step, const Json& machine);

}  // namespace trl::bench
