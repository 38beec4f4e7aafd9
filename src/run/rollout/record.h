// record_rollouts: completions and rewards, a line of JSON for each, which replay_rollouts reads.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/rollout.h"

namespace trl::run {

class Record {
 public:
  explicit Record(std::string path);
  // Appends the lines of a generation. resampled: how many other prompts each row had before; empty: none.
  // Throws Error(io); the file then ends as before, as far as it can be cut.
  void add(std::string_view mode, int64_t generation, const engine::PromptRows& prompts,
           std::span<const engine::Completion> completions, const engine::Rewards& rewards,
           std::span<const int64_t> resampled = {});
  int64_t bytes() const { return bytes_; }
  // Cuts the file to this size and continues there.
  void go_to(int64_t bytes);

 private:
  const std::string path_;
  int64_t bytes_ = 0;
};

}  // namespace trl::run
