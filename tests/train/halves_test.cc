// The halves of a step are the step; between them a run is as before it. The learning rate that is set, and
// evaluations on other rows.
#include <map>

#include "io/temporary_file.h"
#include "support/error_of.h"
#include "train/tiny_run.h"

namespace trl::train::halves_test {
namespace {

using test::error_of;
using test::expect_same;
using test::history;
using test::Settings;
using test::SftRun;
using test::TemporaryDirectory;
using test::tiny_run;
using test::value;

struct Outcome {
  std::vector<std::string> history;
  std::vector<at::Tensor> weights;
};

Outcome finished(SftRun& run, Trainer& trainer) {
  while (trainer.step()) continue;
  trainer.finish();
  return {history(trainer.state()), run.weights()};
}

void expect_same(const Outcome& got, const Outcome& want) {
  EXPECT_EQ(got.history, want.history);
  expect_same(got.weights, want.weights);
}

const Settings kFourSteps = {{"max_steps", "4"}, {"gradient_accumulation_steps", "2"}};

Outcome whole(const Settings& settings, std::optional<test::Rows> eval_rows = {}) {
  SftRun run = tiny_run(settings, {0, 63}, eval_rows);
  return finished(run, run.start());
}

int64_t gradient_bytes() { return test::memory().now(base::MemoryKind::gradients); }

TEST(Halves, AreTheStep) {
  TRL_NEED_TINY_RUN();
  for (const Settings& settings : std::vector<Settings>{
           kFourSteps,
           {{"max_steps", "4"}, {"gradient_checkpointing", "true"}, {"bf16", "true"}, {"dtype", "bfloat16"}},
           {{"max_steps", "4"}, {"optim", "adamw_8bit"}, {"clip_by_previous_norm", "true"}},
           {{"num_train_epochs", "2"}, {"neftune_noise_alpha", "5"}},
           {{"max_steps", "3"}, {"max_tokens_per_pass", "64"}}}) {
    SCOPED_TRACE(settings.back().first);
    SftRun run = tiny_run(settings, {0, 20});
    Trainer& trainer = run.start();
    while (trainer.backward()) {
      EXPECT_TRUE(trainer.begun());
      EXPECT_GT(gradient_bytes(), 0);
      const double loss = value(trainer.begun_metrics(), "loss");
      const int64_t step = trainer.state().global_step;
      trainer.update(true);
      EXPECT_EQ(gradient_bytes(), 0);
      EXPECT_EQ(trainer.state().global_step, step + 1);
      EXPECT_EQ(value(trainer.metrics(), "loss"), loss);
    }
    SftRun other = tiny_run(settings, {0, 20});
    const Outcome want = finished(other, other.start());
    expect_same(finished(run, trainer), want);
  }
}

TEST(Halves, TellWhatIsKnownBeforeTheUpdate) {
  TRL_NEED_TINY_RUN();
  SftRun run = tiny_run(kFourSteps);
  Trainer& trainer = run.start();
  ASSERT_TRUE(trainer.backward());
  const telemetry::Record begun = trainer.begun_metrics();
  trainer.update(true);
  for (const char* name : {"loss", "learning_rate", "entropy", "mean_token_accuracy", "step"})
    EXPECT_EQ(value(begun, name), value(trainer.metrics(), name)) << name;
  EXPECT_EQ(value(begun, "grad_norm"), -1);
}

TEST(Halves, AreRefusedOutOfOrder) {
  TRL_NEED_TINY_RUN();
  SftRun run = tiny_run(kFourSteps);
  Trainer& trainer = run.start();
  const auto early = error_of([&] { trainer.update(true); });
  EXPECT_EQ(early.first, Status::invalid_argument);
  EXPECT_NE(early.second.find("trl_trainer_backward"), std::string::npos) << early.second;
  ASSERT_TRUE(trainer.backward());
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { trainer.step(); }, [&] { trainer.backward(); }, [&] { trainer.finish(); }}) {
    const auto [status, message] = error_of(call);
    EXPECT_EQ(status, Status::invalid_argument);
    EXPECT_NE(message.find("trl_trainer_update"), std::string::npos) << message;
    EXPECT_TRUE(trainer.begun());
  }
  trainer.update(true);
  expect_same(finished(run, trainer), whole(kFourSteps));
}

TEST(Halves, AreRefusedWhereBackwardUpdates) {
  TRL_NEED_TINY_RUN();
  SftRun run = tiny_run({{"max_steps", "2"}, {"optimizer_in_backward", "true"}, {"max_grad_norm", "0"}});
  Trainer& trainer = run.start();
  const auto [status, message] = error_of([&] { trainer.backward(); });
  EXPECT_EQ(status, Status::unsupported);
  EXPECT_NE(message.find("optimizer_in_backward"), std::string::npos) << message;
  EXPECT_TRUE(trainer.step());
}

// A row that fails, and a cancel, in the first half.
TEST(Halves, AFailureLeavesNothingBegun) {
  TRL_NEED_TINY_RUN();
  SftRun run = tiny_run(kFourSteps);
  run.train_stream().fail_at = 3;  // the second row of the second step
  Trainer& trainer = run.start();
  test::StopsAt counts;
  {
    const base::InterruptScope scope(&counts);
    ASSERT_TRUE(trainer.backward());
  }
  trainer.update(true);
  const auto expect_nothing = [&] {
    EXPECT_FALSE(trainer.begun());
    EXPECT_EQ(gradient_bytes(), 0);
    EXPECT_EQ(trainer.state().global_step, 1);
    EXPECT_EQ(error_of([&] { trainer.update(true); }).first, Status::invalid_argument);
  };
  EXPECT_EQ(error_of([&] { trainer.backward(); }).first, Status::callback);
  expect_nothing();
  for (const int64_t at : {int64_t{1}, counts.polls / 4, counts.polls / 2}) {
    test::StopsAt stops(std::max<int64_t>(1, at));
    const base::InterruptScope scope(&stops);
    EXPECT_EQ(error_of([&] { trainer.backward(); }).first, Status::cancelled);
    expect_nothing();
  }
  expect_same(finished(run, trainer), whole(kFourSteps));
}

TEST(Halves, AnUpdateThatWasCancelledIsStillToBeMade) {
  TRL_NEED_TINY_RUN();
  SftRun run = tiny_run(kFourSteps);
  Trainer& trainer = run.start();
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(trainer.backward());
    const std::vector<at::Tensor> before = run.weights();
    for (const bool apply : {true, false}) {
      test::Stops stops;
      const base::InterruptScope scope(&stops);
      const auto [status, message] = error_of([&] { trainer.update(apply); });
      EXPECT_EQ(status, Status::cancelled);
      EXPECT_NE(message.find("before the update of step"), std::string::npos) << message;
      EXPECT_TRUE(trainer.begun());
      EXPECT_EQ(trainer.state().global_step, step);
    }
    expect_same(run.weights(), before);
    trainer.update(true);
  }
  expect_same(finished(run, trainer), whole(kFourSteps));
}

// A gradient that is not finite is known at the update, which can then be left out.
TEST(Halves, AnUpdateThatIsRefusedCanBeLeftOut) {
  TRL_NEED_TINY_RUN();
  SftRun run = tiny_run({{"max_steps", "2"}});
  Trainer& trainer = run.start();
  ASSERT_TRUE(trainer.backward());
  const std::vector<at::Tensor> before = run.weights();
  const at::Tensor gradient = run.model().parameters().back()->gradient();
  ASSERT_TRUE(gradient.defined());
  gradient.fill_(std::nan(""));
  EXPECT_EQ(error_of([&] { trainer.update(true); }).first, Status::invalid_argument);
  EXPECT_TRUE(trainer.begun());
  trainer.update(false);
  expect_same(run.weights(), before);
  EXPECT_EQ(trainer.state().global_step, 1);
  EXPECT_TRUE(trainer.step());
}

TEST(Halves, AStepWithoutUpdateCounts) {
  TRL_NEED_TINY_RUN();
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  SftRun run = tiny_run(kFourSteps), usual = tiny_run(kFourSteps);
  Trainer &trainer = run.start(), &other = usual.start();
  ASSERT_TRUE(trainer.step());
  ASSERT_TRUE(other.step());
  const std::string before = directory.file("before"), after = directory.file("after");
  trainer.save_checkpoint(before);
  ASSERT_TRUE(trainer.backward());
  trainer.update(false);
  ASSERT_TRUE(other.step());
  trainer.save_checkpoint(after);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_TRUE(base::read_file(base::join_path(before, file)) ==
                base::read_file(base::join_path(after, file)))
        << file;
  EXPECT_EQ(trainer.state().global_step, 2);
  EXPECT_EQ(value(trainer.metrics(), "skipped_steps"), 1);
  for (const char* name : {"loss", "grad_norm", "learning_rate", "num_tokens"})
    EXPECT_EQ(value(trainer.metrics(), name), value(other.metrics(), name)) << name;
  const auto &record = trainer.state().log_history.back(), &its = other.state().log_history.back();
  EXPECT_EQ(value(record, "skipped_steps"), 1);
  for (const char* name : {"loss", "grad_norm", "learning_rate", "entropy", "num_tokens"})
    EXPECT_EQ(value(record, name), value(its, name)) << name;
  ASSERT_TRUE(trainer.step());
  ASSERT_TRUE(other.step());
  EXPECT_EQ(value(trainer.metrics(), "learning_rate"), value(other.metrics(), "learning_rate"));
  EXPECT_EQ(run.train_stream().order, usual.train_stream().order);
}

TEST(Halves, ACheckpointBetweenThemIsThatBeforeTheStep) {
  TRL_NEED_TINY_RUN();
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  const std::string own = directory.file("own"), rest = directory.file("rest"),
                    saved = directory.file("saved");
  const auto settings = [](const std::string& output) {
    return Settings{{"max_steps", "5"},
                    {"gradient_accumulation_steps", "2"},
                    {"train_sampling_strategy", "random"},
                    {"output_dir", output.c_str()}};
  };
  const test::Rows eval_rows{40, 46};
  SftRun run = tiny_run(settings(own), {0, 23}, eval_rows);
  Trainer& trainer = run.start();
  ASSERT_TRUE(trainer.step());
  ASSERT_TRUE(trainer.step());
  ASSERT_TRUE(trainer.backward());
  const std::vector<at::Tensor> before = run.weights();
  const double measured = value(trainer.evaluate(), "eval_loss");
  trainer.save_checkpoint(saved);
  expect_same(run.weights(), before);
  trainer.update(true);
  const Outcome want = finished(run, trainer);

  SftRun again = tiny_run(settings(rest), {0, 23}, eval_rows);
  Trainer& resumed = again.start();
  resumed.resume(saved);
  EXPECT_EQ(resumed.state().global_step, 2);
  expect_same(finished(again, resumed), want);

  SftRun plain = tiny_run(settings(directory.file("plain")), {0, 23}, eval_rows);
  Trainer& steps = plain.start();
  ASSERT_TRUE(steps.step());
  ASSERT_TRUE(steps.step());
  EXPECT_EQ(value(steps.evaluate(), "eval_loss"), measured);
  expect_same(finished(plain, steps).weights, want.weights);
}

// Other rows are measured as those of the run would be, and nothing of the run knows of it.
TEST(OtherRows, LeaveNoTrace) {
  TRL_NEED_TINY_RUN();
  const Settings settings = {{"max_steps", "4"},
                             {"eval_strategy", "steps"},
                             {"eval_steps", "2"},
                             {"save_strategy", "no"},
                             {"metric_for_best_model", "eval_loss"},
                             {"train_sampling_strategy", "group_by_length"}};
  const test::Rows own{40, 46}, others{50, 56};
  SftRun run = tiny_run(settings, {0, 9}, own), rows = tiny_run({}, {0, 9}, others);
  Trainer& trainer = run.start();
  const auto evaluates = [&] {
    const std::vector<std::string> before = history(trainer.state());
    const std::optional<double> best = trainer.state().best_metric;
    const telemetry::Record record = trainer.evaluate(*rows.setup.eval);
    EXPECT_EQ(history(trainer.state()), before);
    EXPECT_EQ(trainer.state().best_metric, best);
    EXPECT_EQ(value(record, "step"), static_cast<double>(trainer.state().global_step));
    return value(record, "eval_loss");
  };
  const double first = evaluates();
  SftRun measured = tiny_run(settings, {0, 9}, others);
  EXPECT_EQ(first, value(measured.start().evaluate(), "eval_loss"));
  measured.stop();
  while (trainer.backward()) {
    const double between = evaluates();
    EXPECT_GT(between, 0);
    trainer.update(true);
    EXPECT_NE(evaluates(), between);
  }
  SftRun plain = tiny_run(settings, {0, 9}, own);
  const Outcome want = finished(plain, plain.start());
  expect_same(finished(run, trainer), want);
  EXPECT_EQ(run.train_stream().order, plain.train_stream().order);
}

TEST(LearningRate, IsSetInPlaceOfTheSchedule) {
  TRL_NEED_TINY_RUN();
  SftRun run = tiny_run(kFourSteps), usual = tiny_run(kFourSteps);
  Trainer &trainer = run.start(), &other = usual.start();
  const auto next = [](Trainer& of) {
    EXPECT_TRUE(of.step());
    return value(of.metrics(), "learning_rate");
  };
  EXPECT_EQ(next(trainer), next(other));
  trainer.set_learning_rate(1e-4 / 3);
  EXPECT_EQ(next(trainer), 1e-4 / 3);
  EXPECT_EQ(value(trainer.state().log_history.back(), "learning_rate"), 1e-4 / 3);
  next(other);
  // it does not change a step that has begun
  ASSERT_TRUE(trainer.backward());
  trainer.set_learning_rate(std::nan(""));
  trainer.update(true);
  EXPECT_EQ(value(trainer.metrics(), "learning_rate"), 1e-4 / 3);
  next(other);
  EXPECT_EQ(next(trainer), next(other));
}

TEST(LearningRate, OfZeroLeavesTheWeights) {
  TRL_NEED_TINY_RUN();
  SftRun run = tiny_run({{"max_steps", "2"}, {"weight_decay", "0.1"}});
  Trainer& trainer = run.start();
  const std::vector<at::Tensor> before = run.weights();
  trainer.set_learning_rate(0);
  ASSERT_TRUE(trainer.step());
  expect_same(run.weights(), before);
}

TEST(LearningRate, IsKeptInCheckpoints) {
  TRL_NEED_TINY_RUN();
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  const std::string own = directory.file("own"), rest = directory.file("rest");
  const auto settings = [](const std::string& output) {
    return Settings{{"max_steps", "4"}, {"output_dir", output.c_str()}};
  };
  const auto kept = [&](const std::string& name) {
    const std::string text = base::read_file(base::join_path(directory.file(name), "trl_state.json"));
    return text.find("set_learning_rate") != std::string::npos;
  };
  SftRun run = tiny_run(settings(own));
  Trainer& trainer = run.start();
  ASSERT_TRUE(trainer.step());
  trainer.save_checkpoint(directory.file("before"));
  trainer.set_learning_rate(1e-3 / 7);
  ASSERT_TRUE(trainer.step());
  trainer.save_checkpoint(directory.file("set"));
  // a step that has begun is repeated with the rate that it began with
  ASSERT_TRUE(trainer.backward());
  trainer.set_learning_rate(1e-3 / 9);
  trainer.save_checkpoint(directory.file("begun"));
  trainer.set_learning_rate(1e-3 / 7);
  trainer.update(true);
  const Outcome want = finished(run, trainer);
  EXPECT_FALSE(kept("before"));
  EXPECT_TRUE(kept("set"));
  for (const char* from : {"set", "begun"}) {
    SCOPED_TRACE(from);
    SftRun again = tiny_run(settings(rest));
    Trainer& resumed = again.start();
    resumed.resume(directory.file(from));
    expect_same(finished(again, resumed), want);
    again.stop();
  }
}

}  // namespace
}  // namespace trl::train::halves_test
