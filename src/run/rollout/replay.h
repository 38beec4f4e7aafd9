// replay_rollouts: completions, and rewards, that were recorded in a file, a line for each.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "data/source/table.h"
#include "engine/rollout.h"
#include "run/rollout/completion_source.h"

namespace trl::run {

struct ReplayedRow {
  engine::Completion completion;
  std::vector<std::pair<std::string, double>> rewards;  // by name; NaN: none
  int64_t resampled = 0;                                // other prompts that its place had before this one
};

// Numbers of lines.
struct ReplayLines {
  int64_t train = 0, eval = 0;
  int64_t any = 0;  // that do not say which of both they are of
};

// Throws Error, which names the key, if there is no such file. Reads nothing.
void check_replay(const std::string& path);

// Training and evaluation take lines from the same place on.
class Replay {
 public:
  // Reads the whole file once. Throws Error(format) that names the line.
  explicit Replay(const std::string& path);
  // Throws Error(invalid_config) that names the line of an id that the model lacks. vocabulary: its ids.
  void check_ids(int64_t vocabulary) const;
  const std::vector<std::string>& rewards() const { return names_; }  // all names, as they first come
  const std::string& path() const { return path_; }
  ReplayLines left() const;  // from the place on
  // Compares the generations of training from the place on, whose numbers begin at `first`, with those of the
  // run, up to the first line that does not say which one it is of. next_size: gives the completions of each
  // in turn, 0 after the last one. Throws Error(invalid_config) that names the first line of one that
  // differs.
  void check_generations(int64_t first, const std::function<int64_t()>& next_size) const;
  // Returns the dataset row of each of the next lines, as far as they say it; fewer: the file ends.
  std::vector<std::optional<int64_t>> next_prompts(int64_t count) const;
  // Takes the lines of a generation, one for each prompt. mode: train or eval. Throws Error(invalid_argument)
  // if the file says that a line is of another one, or ends.
  std::vector<ReplayedRow> take(std::string_view mode, int64_t generation, const engine::PromptRows& prompts);
  int64_t place() const { return next_; }  // of the next line, from 0
  void go_to(int64_t place) { next_ = place; }

 private:
  enum class Mode : uint8_t { train, eval, any };
  // Lines that follow each other, of one generation if they say which.
  struct Part {
    Mode mode;
    std::optional<int64_t> generation;
    int64_t first, lines;

    bool named() const { return mode == Mode::eval || (mode == Mode::train && generation); }
  };
  base::Json line(int64_t place, Place& where) const;
  void count(int64_t place, const base::Json& line);

  const std::string path_;
  const std::shared_ptr<const data::Table> lines_;
  std::vector<std::string> names_;
  std::vector<Part> parts_;  // of the whole file
  int64_t next_ = 0;
  int32_t largest_id_ = -1;
  Place place_of_largest_;  // file and line
};

// The completions of a file as those of a run. Keeps the lines of the last generation.
class ReplayedCompletions final : public CompletionSource {
 public:
  explicit ReplayedCompletions(Replay* replay) : replay_(replay) {}  // null: there are none
  std::vector<engine::Completion> write(const WantedCompletions& wanted) override;
  std::string_view name() const override { return key(); }
  std::string_view key() const override { return "replay_rollouts"; }
  const std::vector<ReplayedRow>& rows() const { return rows_; }
  std::vector<int64_t> resampled() const;  // by row
  void clear() { rows_.clear(); }

 private:
  Replay* const replay_;
  std::vector<ReplayedRow> rows_;
};

}  // namespace trl::run
