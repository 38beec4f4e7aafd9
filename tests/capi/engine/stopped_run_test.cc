// A run that an event callback has stopped or failed goes on with the next call, as if it had not been
// stopped.
#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// Answers a step, or the event of another kind at it, once.
struct Answers {
  int32_t kind = TRL_ON_STEP;
  int64_t step = 3;
  int32_t answer = TRL_EVENT_STOP;
  std::vector<int32_t> kinds = {};  // of all events
  std::vector<std::string> paths = {};
  static int32_t on_event(void* data, int32_t kind, const trl_metrics* metrics) {
    auto* self = static_cast<Answers*>(data);
    self->kinds.push_back(kind);
    const char* const path = trl_metrics_text(metrics, "path");
    EXPECT_EQ(path != nullptr, kind == TRL_ON_SAVE);
    if (path != nullptr) self->paths.emplace_back(path);
    EXPECT_EQ(trl_metrics_text(metrics, "step"), nullptr);
    const bool now = kind == self->kind && host::metric(metrics, "step") == static_cast<double>(self->step);
    return now ? std::exchange(self->answer, 0) : 0;
  }
};

struct StoppableRun {
  host::Scratch scratch;
  host::Dataset rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  host::Trainer trainer;
  explicit StoppableRun(const host::Settings& more = {})
      : trainer(
            host::trainer(host::with(host::tiny(scratch / "out"),
                                     host::with({{"save_strategy", "no"}, {"report_to", "csv,jsonl"}}, more)),
                          rows.get(), rows.get())) {}
  trl_status train(Answers& answers, trl_error** error = nullptr) const {
    return trl_trainer_train(trainer.get(), Answers::on_event, &answers, error);
  }
  trl_status train() const { return trl_trainer_train(trainer.get(), nullptr, nullptr, nullptr); }
  Json log() const {
    Json log = host::state(trainer.get())["log_history"];
    for (Json& record : log) {
      for (const std::string what : {"runtime", "samples_per_second", "steps_per_second"}) {
        for (const std::string of : {"train_", "eval_"}) record.erase(of + what);
      }
    }
    return log;
  }
  // The header, and the step of each record.
  std::vector<std::string> csv() const {
    std::istringstream file(host::read_file(scratch / "out" / "log_history.csv"));
    std::vector<std::string> out;
    for (std::string line; std::getline(file, line);)
      out.push_back(out.empty() ? line : line.substr(0, line.find(',')));
    return out;
  }
  std::string weights() const {
    EXPECT_EQ(trl_trainer_save(trainer.get(), (scratch / "saved").c_str(), nullptr, nullptr), TRL_OK);
    return host::read_file(scratch / "saved" / "model.safetensors");
  }
};

TEST(StoppedRun, IsResumedByTheNextCallBitForBit) {
  NEED_MODEL();
  const StoppableRun whole;
  ASSERT_EQ(whole.train(), TRL_OK);
  for (const int64_t step : {1, 3, 7}) {
    for (const int32_t answer : {int32_t{TRL_EVENT_STOP}, int32_t{-5}}) {
      const StoppableRun run;
      Answers answers{TRL_ON_STEP, step, answer};
      Error error;
      EXPECT_EQ(run.train(answers, error), answer < 0 ? TRL_E_CALLBACK : TRL_OK) << error.message();
      EXPECT_EQ(host::state(run.trainer.get())["global_step"], step);
      EXPECT_EQ(answers.kinds.back(), TRL_ON_TRAIN_END);
      answers.kinds.clear();
      EXPECT_EQ(run.train(answers, error), TRL_OK) << error.message();
      EXPECT_EQ(answers.kinds.front(), TRL_ON_TRAIN_BEGIN);
      EXPECT_EQ(answers.kinds.back(), TRL_ON_TRAIN_END);
      EXPECT_EQ(std::count(answers.kinds.begin(), answers.kinds.end(), TRL_ON_STEP), 8 - step);
      EXPECT_EQ(run.log(), whole.log()) << step;
      EXPECT_TRUE(run.weights() == whole.weights()) << step;
      EXPECT_EQ(run.csv(), whole.csv()) << step;
      answers.kinds.clear();
      EXPECT_EQ(run.train(answers, error), TRL_END) << error.message();
      EXPECT_TRUE(answers.kinds.empty());
    }
  }
  EXPECT_EQ(whole.train(), TRL_END);
}

TEST(StoppedRun, IsResumedByAStepAndStoppedAgain) {
  NEED_MODEL();
  const StoppableRun whole, run;
  ASSERT_EQ(whole.train(), TRL_OK);
  Answers begin{TRL_ON_TRAIN_BEGIN, 0}, again = begin, third{TRL_ON_STEP, 3}, last{TRL_ON_STEP, 8};
  EXPECT_EQ(run.train(begin), TRL_OK);
  EXPECT_EQ(run.train(again), TRL_OK);
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 0);
  EXPECT_EQ(run.train(third), TRL_OK);
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, nullptr), TRL_OK);
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 4);
  EXPECT_EQ(run.train(last), TRL_OK);
  EXPECT_EQ(run.train(last), TRL_END);
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, nullptr), TRL_END);
  EXPECT_TRUE(run.weights() == whole.weights());
}

// An epoch that was cut short is continued, also by another process.
TEST(StoppedRun, ItsCheckpointResumesInTheMiddleOfTheEpoch) {
  NEED_MODEL();
  const host::Settings epochs = {{"save_strategy", "epoch"}};
  const StoppableRun whole(epochs);
  ASSERT_EQ(whole.train(), TRL_OK);
  const StoppableRun run(epochs);
  Answers answers;
  ASSERT_EQ(run.train(answers), TRL_OK);
  const std::string checkpoint = run.scratch / "out" / "checkpoint-3";
  EXPECT_EQ(answers.paths, std::vector<std::string>{checkpoint});
  const StoppableRun other(host::with(epochs, {{"resume_from_checkpoint", checkpoint}}));
  ASSERT_EQ(other.train(), TRL_OK);
  EXPECT_TRUE(other.weights() == whole.weights());
}

TEST(StoppedRun, WithTheWeightsOfItsBestStepIsNotResumed) {
  NEED_MODEL();
  const StoppableRun run({{"save_strategy", "steps"},
                          {"eval_strategy", "steps"},
                          {"save_steps", "2"},
                          {"eval_steps", "2"},
                          {"learning_rate", "0.5"},
                          {"max_grad_norm", "0"},
                          {"load_best_model_at_end", "true"}});
  Answers answers{TRL_ON_STEP, 5};
  ASSERT_EQ(run.train(answers), TRL_OK);
  Error error;
  EXPECT_EQ(run.train(answers, error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "load_best_model_at_end");
  EXPECT_TRUE(error.names("checkpoint-")) << error.message();
}

}  // namespace
