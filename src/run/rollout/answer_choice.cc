#include "run/rollout/answer_choice.h"

namespace trl::run {

AnswersOf AnswerChoice::next() {
  ++made_;
  if (random_.random() <= lmbda_) return AnswersOf::model;
  return seq_kd_ ? AnswersOf::teacher : AnswersOf::rows;
}

void AnswerChoice::go_to(int64_t made) {
  random_ = base::PythonRandom(seed_);
  for (made_ = 0; made_ < made; ++made_) random_.random();
}

}  // namespace trl::run
