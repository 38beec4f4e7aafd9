#include "run/rollout/replayed_run.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/number.h"

namespace trl::run {

namespace {

// The sizes of the generations of training that take lines, one after the other.
class Sizes {
 public:
  explicit Sizes(const ReplayedRun& run) : run_(run) {
    if (run.choice != nullptr) choice_.emplace(*run.choice);
  }
  // Returns the completions of the next generation; 0: it takes no lines.
  int64_t next() {
    const int64_t size = run_.train.completions(run_.train.next_generation() + made_++, 1);
    return choice_ && choice_->next() == AnswersOf::rows ? 0 : size;
  }
  int64_t made() const { return made_; }

 private:
  const ReplayedRun& run_;
  std::optional<AnswerChoice> choice_;
  int64_t made_ = 0;
};

int64_t train_lines(const ReplayedRun& run, int64_t generations) {
  if (run.choice == nullptr) return run.train.completions(run.train.next_generation(), generations);
  int64_t lines = 0;
  for (Sizes sizes(run); sizes.made() < generations;) lines += sizes.next();
  return lines;
}

// GKD's evaluations have the completions of the rows.
int64_t eval_lines(const ReplayedRun& run, const engine::RolloutNeeds& needs) {
  if (run.eval == nullptr || run.choice != nullptr) return 0;
  return needs.evaluations * run.eval->completions(0, run.eval->generations()) +
         needs.samples * run.eval->completions(0, 1);
}

struct Need {
  engine::RolloutNeeds of_run;
  int64_t train = 0, eval = 0;  // lines

  bool met(const ReplayLines& left) const {
    return train <= left.train + left.any && eval <= left.eval + left.any &&
           train + eval <= left.train + left.eval + left.any;
  }
};

Need need_of(const ReplayedRun& replayed, const engine::RunAhead& run, int64_t max_steps) {
  constexpr int64_t kMost = int64_t{1} << 31;  // more than any file has
  Need need{run.needs(max_steps)};
  for (int64_t* const count : {&need.of_run.generations, &need.of_run.evaluations, &need.of_run.samples})
    *count = std::min(*count, kMost);
  need.train = train_lines(replayed, need.of_run.generations);
  need.eval = eval_lines(replayed, need.of_run);
  return need;
}

// Returns the largest number of steps for which the file lasts.
int64_t steps_of(const ReplayedRun& replayed, const engine::RunAhead& run, const ReplayLines& left) {
  int64_t lasts = run.step(), fails = run.max_steps();
  while (fails - lasts > 1) {
    const int64_t middle = lasts + (fails - lasts) / 2;
    (need_of(replayed, run, middle).met(left) ? lasts : fails) = middle;
  }
  return lasts;
}

// Counts the generations of training that so many lines are enough for.
int64_t generations_of(const ReplayedRun& replayed, int64_t lines, int64_t most) {
  int64_t lasts = 0, fails = most + 1;
  while (fails - lasts > 1) {
    const int64_t middle = lasts + (fails - lasts) / 2;
    (train_lines(replayed, middle) <= lines ? lasts : fails) = middle;
  }
  return lasts;
}

}  // namespace

void check_replay(const ReplayedRun& replayed, const engine::RunAhead& run) {
  const ReplayLines left = replayed.replay.left();
  const Need need = need_of(replayed, run, run.max_steps());
  if (!need.met(left)) {
    const int64_t lines = left.train + left.any;
    std::string has =
        fmt::format("{}{} ({})", base::quantity(lines, "line"), left.any > 0 ? "" : " of training",
                    base::quantity(generations_of(replayed, lines, need.of_run.generations), "generation"));
    std::string needs =
        fmt::format("{} ({})", need.train, base::quantity(need.of_run.generations, "generation"));
    if (need.eval > 0) {
      if (left.any == 0) has += fmt::format(" and {} of evaluation", left.eval);
      const int64_t times = need.of_run.evaluations + need.of_run.samples;
      needs += fmt::format(" and {} of {}", need.eval, base::quantity(times, "evaluation"));
    }
    const int64_t steps = steps_of(replayed, run, left);
    const std::string from =
        replayed.replay.place() > 0 ? fmt::format("from line {} on ", replayed.replay.place() + 1) : "";
    fail_key(
        "replay_rollouts",
        "replay_rollouts: {}: {}it has {}, and the run needs {} up to step {}: give a file of this run{}",
        replayed.replay.path(), from, has, needs, run.max_steps(),
        steps > run.step()
            ? fmt::format(", or max_steps: {}{}", steps,
                          replayed.schedule_needs_length ? ", which changes the learning rates" : "")
            : "");
  }
  Sizes sizes(replayed);
  replayed.replay.check_generations(replayed.generation, [&] {
    int64_t size = 0;
    while (size == 0 && sizes.made() < need.of_run.generations) size = sizes.next();
    return size;
  });
}

}  // namespace trl::run
