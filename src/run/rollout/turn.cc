#include "run/rollout/turn.h"

#include <cmath>

namespace trl::run {

namespace {

// Appends values of a turn to those of a completion; `missing` stands for those that one of both lacks.
template <class T>
void add_values(std::vector<T>& own, size_t before, const std::vector<T>& turn, size_t more, T missing) {
  if (own.empty() && turn.empty()) return;
  own.resize(before, missing);
  own.insert(own.end(), turn.begin(), turn.end());
  own.resize(before + more, missing);
}

}  // namespace

void add_turn(engine::Completion& completion, const engine::Completion& turn) {
  const size_t before = completion.ids.size(), more = turn.ids.size();
  add_values(completion.log_probabilities, before, turn.log_probabilities, more, std::nanf(""));
  add_values(completion.written, before, turn.written, more, uint8_t{1});
  completion.ids.insert(completion.ids.end(), turn.ids.begin(), turn.ids.end());
}

engine::Completion answer_turn(const std::vector<int32_t>& ids) {
  return {.ids = ids, .written = std::vector<uint8_t>(ids.size(), 0)};
}

void cut(engine::Completion& completion, size_t most) {
  if (completion.ids.size() <= most) return;
  completion.ids.resize(most);
  if (!completion.log_probabilities.empty()) completion.log_probabilities.resize(most);
  if (!completion.written.empty()) completion.written.resize(most);
}

}  // namespace trl::run
