// The rows, completions and options of a run of a method that writes completions, for libtrl and for TRL.
#pragma once
#include "support/command.h"
#include "support/scratch.h"
#include "train/sft_run.h"

namespace trl::bench {

inline constexpr const char* kOnlineMethods[] = {"grpo", "rloo", "online_dpo", "gkd", "distillation", "ppo"};

struct OnlineSettings : PeerSettings {
  std::string method = "grpo", model, tokenizer, peer, precision = "fp32";
  std::string teacher;  // gkd, distillation
  std::string scorer;   // ppo: the reward model, and where the value model begins
  int steps = 3, peer_steps = 1, lora = 16;
  int late = 200;  // milliseconds
  int64_t prompt = 1024, completion = 256, group = 8;

  bool has_groups() const { return method == "grpo" || method == "rloo"; }
  bool has_teacher() const { return method == "gkd" || method == "distillation"; }
};

// Completions of a step. They are of one prompt (grpo, rloo), pairs of group / 2 prompts (online_dpo), or
// have a prompt each.
struct OnlineShape {
  int64_t prompt, completion, group;
  bool varied = false;  // completions are shorter by up to a half: GRPO's loss is not 0. Not those of PPO
};

// A run of that many steps after the first. writes: completions come from the model; else they are given,
// with rewards (gkd: as answers of the rows).
SftWork online_work(const OnlineSettings& s, const Scratch& scratch, const OnlineShape& shape, int steps,
                    bool writes);
// The same for libtrl: it leaves out no rows, as TRL does.
SftWork our_work(const OnlineSettings& s, const Scratch& scratch, const OnlineShape& shape, int steps,
                 bool writes);

// The median of a value of the steps after the first.
double warm_median(const std::vector<Json>& runs, const char* key);
// The same of a value of profile_parts, of ours.
double part_of(const std::vector<Json>& runs, const std::string& part);

}  // namespace trl::bench
