// GKD: whose completions a micro-batch has.
#pragma once
#include <cstdint>

#include "base/arithmetic/python_random.h"
#include "config/online/online_arguments.h"

namespace trl::run {

enum class AnswersOf : uint8_t { model, teacher, rows };

// Draws as TRL does: one number of Python's generator for each micro-batch. The model writes if it is at most
// lmbda; else the teacher, with seq_kd.
class AnswerChoice {
 public:
  AnswerChoice(const config::OnlineArguments& arguments, uint64_t seed)
      : lmbda_(arguments.lmbda), seq_kd_(arguments.seq_kd), seed_(seed), random_(seed) {}
  AnswersOf next();
  int64_t made() const { return made_; }
  void go_to(int64_t made);  // choices before the next one

 private:
  const double lmbda_;
  const bool seq_kd_;
  const uint64_t seed_;
  base::PythonRandom random_;
  int64_t made_ = 0;
};

}  // namespace trl::run
