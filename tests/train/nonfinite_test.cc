// on_nonfinite: what a loss or a gradient that is not finite does to the step, to what is logged, and to the
// steps after it. error is in step_test.cc too.
#include <limits>

#include "support/warnings.h"
#include "train/forwarded_source.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::expect_same;
using test::tiny_run;
using test::value;

// Leaves out the batch with this index.
class Without final : public test::ForwardedSource {
 public:
  Without(engine::BatchSource& source, int64_t index) : ForwardedSource(source), index_(index) {}
  int32_t next(const data::Batch** batch, engine::ErrorSink& error) noexcept override {
    if (calls_++ == index_) {
      const int32_t status = ForwardedSource::next(batch, error);
      if (status != 0) return status;
    }
    return ForwardedSource::next(batch, error);
  }

 private:
  const int64_t index_;
  int64_t calls_ = 0;
};

struct Numbers {
  double loss = 0, learning_rate = 0, num_tokens = 0;
};

Numbers numbers(const telemetry::Record& record) {
  return {value(record, "loss"), value(record, "learning_rate"), value(record, "num_tokens")};
}

// One weight is not a number during the second step.
struct NonfiniteRun {
  explicit NonfiniteRun(test::Settings more, bool poisoned = true, int64_t left_out = -1) {
    more.push_back({"logging_steps", "2"});
    test::SftRun run = tiny_run(more);
    run.setup.log = &log_lines;
    Without without(run.train_stream(), left_out);
    if (left_out >= 0) run.setup.train = &without;
    Trainer& trainer = run.start();
    tensor::Parameter& weight = *run.model().parameters().back();
    const auto first = [&] { return weight.read()->view({-1})[0].item<float>(); };
    const auto set_first = [&](float value) { weight.write()->view({-1})[0].fill_(value); };
    for (;;) {
      const float kept = first();
      const bool now = poisoned && trainer.state().global_step == 1;
      if (now) set_first(std::numeric_limits<float>::quiet_NaN());
      if (!trainer.step()) break;
      if (now && std::isnan(first())) set_first(kept);
      steps.push_back(numbers(trainer.metrics()));
      if (value(trainer.metrics(), "skipped_steps") == 1) skipped.push_back(trainer.state().global_step);
    }
    trainer.finish();
    weights = run.weights();
    log = trainer.state().log_history;
  }
  std::vector<at::Tensor> weights;
  std::vector<telemetry::Record> log;
  std::vector<Numbers> steps;
  std::vector<int64_t> skipped;
  test::Warnings log_lines;
};

const test::Settings kSkip = {
    {"on_nonfinite", "skip"}, {"max_steps", "4"}, {"lr_scheduler_type", "constant"}};

// The run is then that of the other batches: AdamW and the weights have not seen the step.
TEST(Nonfinite, skip_leaves_the_step_out) {
  TRL_NEED_TINY_RUN();
  const NonfiniteRun got(kSkip);
  test::Settings three = kSkip;
  three[1] = {"max_steps", "3"};
  const NonfiniteRun others(three, false, 1);
  expect_same(got.weights, others.weights);
  EXPECT_EQ(got.skipped, std::vector<int64_t>{2});
  ASSERT_EQ(got.steps.size(), 4u);
  EXPECT_TRUE(std::isnan(got.steps[1].loss));
  EXPECT_EQ(got.steps[0].loss, others.steps[0].loss);
  EXPECT_EQ(got.steps[2].loss, others.steps[1].loss);
  EXPECT_EQ(got.steps[3].loss, others.steps[2].loss);
  ASSERT_EQ(got.log_lines.lines.size(), 1u);
  EXPECT_EQ(
      got.log_lines.lines[0],
      "on_nonfinite skip: the loss of step 2 is nan (dataset rows 4, 5, 6, 7); the weights are as before the "
      "step; model.norm.weight[0] is nan; try a lower learning_rate than 0.001");
}

TEST(Nonfinite, skip_in_what_is_logged) {
  TRL_NEED_TINY_RUN();
  const NonfiniteRun got(kSkip), usual(kSkip, false);
  ASSERT_EQ(got.log.size(), 3u);
  EXPECT_EQ(value(got.log[0], "loss"), got.steps[0].loss);
  EXPECT_EQ(value(got.log[0], "skipped_steps"), 1);
  EXPECT_FALSE(std::isnan(value(got.log[0], "entropy")));
  EXPECT_NEAR(value(got.log[1], "loss"), (got.steps[2].loss + got.steps[3].loss) / 2, 1e-6);
  EXPECT_EQ(value(got.log[1], "skipped_steps"), -1);
  EXPECT_NEAR(value(got.log[2], "train_loss"),
              (got.steps[0].loss + got.steps[2].loss + got.steps[3].loss) / 3, 1e-6);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got.steps[i].num_tokens, usual.steps[i].num_tokens) << i;
}

TEST(Nonfinite, skip_keeps_the_schedule) {
  TRL_NEED_TINY_RUN();
  test::Settings linear = kSkip;
  linear[2] = {"lr_scheduler_type", "linear"};
  const NonfiniteRun got(linear), usual(linear, false);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got.steps[i].learning_rate, usual.steps[i].learning_rate) << i;
}

TEST(Nonfinite, a_log_of_skipped_steps_alone_has_no_loss) {
  TRL_NEED_TINY_RUN();
  test::Settings settings = kSkip;
  settings.push_back({"logging_first_step", "true"});
  const NonfiniteRun got(settings);
  ASSERT_EQ(got.log.size(), 4u);
  EXPECT_EQ(value(got.log[1], "step"), 2);
  EXPECT_EQ(value(got.log[1], "skipped_steps"), 1);
  EXPECT_EQ(value(got.log[1], "loss"), -1);
  EXPECT_EQ(value(got.log[1], "grad_norm"), -1);
}

// Trainer: tr_loss += tr_loss / (1 + global_step - globalstep_last_logged), in float32; the weights are lost.
TEST(Nonfinite, continue_is_trainers) {
  TRL_NEED_TINY_RUN();
  const test::Settings settings = {{"on_nonfinite", "continue"}, {"max_steps", "3"}};
  const NonfiniteRun got(settings);
  const float first = static_cast<float>(got.steps[0].loss);
  EXPECT_EQ(value(got.log[0], "loss"), static_cast<double>(first + first / 2.0f) / 2);
  EXPECT_TRUE(std::isnan(value(got.log[0], "grad_norm")));
  EXPECT_TRUE(std::isnan(got.steps[2].loss));
  for (const at::Tensor& weight : got.weights) EXPECT_TRUE(at::isnan(weight).all().item<bool>());
  EXPECT_TRUE(got.log_lines.lines.empty());
  test::Settings unfiltered = settings;
  unfiltered.push_back({"logging_nan_inf_filter", "false"});
  EXPECT_TRUE(std::isnan(value(NonfiniteRun(unfiltered).log[0], "loss")));
}

}  // namespace
}  // namespace trl::train
