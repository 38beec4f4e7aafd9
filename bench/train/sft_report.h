// What sft_bench says of its runs.
#pragma once
#include "train/sft_run.h"

namespace trl::bench {

struct Architecture {
  double parameters = 0, blocks = 0, head = 0;  // N, N_b (active for a token), N_h
  double layers = 0, attention_width = 0;       // L, d: all query heads together
};
Architecture architecture_of(const Json& description);  // of describe_model

// least: a loss that is smaller counts as this in relative differences.
Json equality_line(const std::string& precision, const Json& ours, const Json& theirs, double least = 0);
// Of weights, gradients and optimizer states. adapter: the parameters of the one that is trained on the
// frozen model; 0: all of the model is. four_bit: the blocks are frozen in NF4.
double states_bytes(const std::string& precision, const Architecture& model, double adapter, bool four_bit);
// states: states_bytes, which the memory is compared with.
Json speed_line(const std::string& name, const std::string& precision, double states,
                const std::vector<Json>& runs);
// Ratios of one of our lines to TRL's: speed always, memory in the same precision.
void add_ratios(Json& theirs, const Json& ours);
Json roofline_line(const std::string& name, const std::string& precision, const Architecture& model,
                   double adapter, const Json& gemm, const std::vector<Json>& runs);
Json parts_line(const std::string& name, const std::vector<Json>& runs);

}  // namespace trl::bench
