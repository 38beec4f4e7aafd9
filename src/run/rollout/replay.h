// replay_rollouts: completions, and rewards, that were recorded in a file, a line for each.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "data/source/table.h"
#include "engine/engine.h"

namespace trl::run {

struct ReplayedRow {
  engine::Completion completion;
  std::vector<std::pair<std::string, double>> rewards;  // by name; NaN: none
};

// Training and evaluation take lines from the same place on.
class Replay {
 public:
  // Reads the whole file once. Throws Error(format) that names the line.
  explicit Replay(const std::string& path);
  // Throws Error(invalid_config) that names the line of an id that the model lacks. vocabulary: its ids.
  void check_ids(int64_t vocabulary) const;
  const std::vector<std::string>& rewards() const { return names_; }  // all names, as they first come
  // Takes the lines of a generation, one for each prompt. mode: train or eval. Throws Error(invalid_argument)
  // if the file says that a line is of another one, or ends.
  std::vector<ReplayedRow> take(std::string_view mode, int64_t generation, const engine::PromptRows& prompts);
  int64_t place() const { return next_; }  // of the next line, from 0
  void go_to(int64_t place) { next_ = place; }

 private:
  base::Json line(int64_t place, std::string& where) const;

  const std::string path_;
  const std::shared_ptr<const data::Table> lines_;
  std::vector<std::string> names_;
  int64_t next_ = 0;
  int32_t largest_id_ = -1;
  std::string place_of_largest_;  // file and line
};

}  // namespace trl::run
