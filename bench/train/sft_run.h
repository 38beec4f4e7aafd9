// One run of training, by SFT unless the options have a method, in a process of its own: the same options for
// libtrl and for TRL.
#pragma once
#include <string>
#include <vector>

#include "support/command.h"
#include "support/runs.h"

namespace trl::bench {

// Both sides print one object: tokens, seconds and losses of every step, grad_norms if the trainer has them,
// first_step_seconds (from process start to the end of step one), peak_resident_bytes, by; ours also profile,
// of every step (profile_parts), and adapter_parameters if an adapter is trained.
struct SftWork {
  std::string model, dataset, columns;
  Json options = Json::object();  // TRL's names, of what is not the default
  int steps = 0;
  int late =
      -1;  // ours: milliseconds after which a reward of the host answers, from another thread; -1: none
};

// Trains an adapter on all linear layers instead of the model.
void add_lora(int rank, double dropout, SftWork& work);

Json run_ours(const SftWork& work);
Json run_trl(const std::string& python, const SftWork& work);

// A process of this program: the run that run_ours or describe_model started. Its exit status.
int sft_child(const std::string& work);

Json describe_model(const std::string& model);  // parameters and config.json

// Tokens a second of the warm steps (all but the first) of all runs.
struct Speed {
  double mean = 0;  // their tokens by their seconds
  double median = 0, smallest = 0, largest = 0;
  int64_t steps = 0;
};
Speed speed_of(const std::vector<Json>& runs);

}  // namespace trl::bench
