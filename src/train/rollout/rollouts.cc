#include "train/rollout/rollouts.h"

namespace trl::train {

WritingTimes Writers::times() const {
  WritingTimes sum;
  for (const CompletionWriter* writer : {model.get(), teacher.get()}) {
    if (writer == nullptr) continue;
    sum.all += writer->times().all;
    sum.tail += writer->times().tail;
    sum.copies += writer->times().copies;
  }
  return sum;
}

Rollouts::Rollouts(const config::TrainingArguments& arguments, const engine::RolloutSpec& spec,
                   std::unique_ptr<CompletionWriter> writer)
    : arguments_(arguments),
      spec_(spec),
      writers_{std::move(writer), nullptr},
      chance_(static_cast<uint64_t>(arguments.seed)),
      train_({arguments_, spec_, writers_, chance_}) {
  if (spec.eval != nullptr)
    eval_.emplace(RolloutBatches::Setup{arguments_, spec_, writers_, chance_, /*training=*/false});
}

void Rollouts::say(base::LogSink& log) const {
  const WritingTimes times = writers_.times();
  if (times.all == 0) return;
  log.info("train",
           "completions were written in {:.1f} s; for {:.1f} s of them ({:.1f} %) only the longest was left",
           times.all, times.tail, 100 * times.tail / times.all);
  if (const std::string& type = spec_.generator.weights; !type.empty())
    log.info("train", "generation_dtype: for {:.1f} s of them copies in {} were made of the changed weights",
             times.copies, type);
}

bool Rollouts::samples_after(int64_t step, int64_t max_steps) const {
  const int64_t distance = steps_between_samples(arguments_, max_steps);
  return eval_ && distance > 0 && (step - 1) % distance == 0;
}

void Rollouts::set_step(int64_t step, int64_t window) {
  train_.set_step(step, window);
  if (eval_) eval_->set_step(step);
}

void Rollouts::learn_by(RolloutMethod& method) {
  if (const model::Model* const teacher = method.teacher())
    writers_.teacher = std::make_unique<CompletionWriter>(*teacher, spec_.generator);
  train_.learn_by(method);
  if (eval_) eval_->learn_by(method);
}

}  // namespace trl::train
