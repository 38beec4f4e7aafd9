// An update in halves is the update.
#include "train/tiny_run.h"

namespace trl::train::stepper_test {
namespace {

using test::tiny_run;

struct Made {
  std::vector<at::Tensor> weights;
  double loss, norm;
};

// Makes two updates of three micro-batches by `make`.
template <typename Make>
Made made_by(const Make& make) {
  test::SftRun run = tiny_run({{"gradient_accumulation_steps", "3"}});
  Stepper stepper(run.setup);
  Batches batches(*run.setup.train, run.model().config().vocab_size);
  Made made;
  for (int64_t step = 0; step < 2; ++step) {
    const std::vector<MicroBatch>& window = batches.fill_window(3);
    const Learned learned = make(stepper, window, StepPlace{step, 1e-3});
    batches.window_done();
    EXPECT_EQ(learned.losses.size(), 3U);
    made.loss = static_cast<double>(learned.loss);
    made.norm = learned.norm;
  }
  made.weights = run.weights();
  return made;
}

void expect_same(const Made& got, const Made& want) {
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.norm, want.norm);
  for (size_t i = 0; i < want.weights.size(); ++i)
    EXPECT_TRUE(at::equal(got.weights[i], want.weights[i])) << "weight " << i;
}

using Window = std::vector<MicroBatch>;

Made whole() {
  return made_by([](Stepper& stepper, const Window& window, const StepPlace& place) {
    return stepper.step(window, place);
  });
}

TEST(Stepper, HalvesAreTheWhole) {
  TRL_NEED_TINY_RUN();
  expect_same(made_by([](Stepper& stepper, const Window& window, const StepPlace& place) {
                stepper.begin(window, place);
                for (size_t i = 0; i < window.size(); ++i) EXPECT_TRUE(stepper.accumulate());
                return stepper.update();
              }),
              whole());
}

// A window that was begun and left, after any of its micro-batches, leaves nothing behind.
TEST(Stepper, AWindowCanBeginAgain) {
  TRL_NEED_TINY_RUN();
  expect_same(made_by([](Stepper& stepper, const Window& window, const StepPlace& place) {
                stepper.begin(window, place);
                EXPECT_TRUE(stepper.accumulate());
                EXPECT_TRUE(stepper.accumulate());
                return stepper.step(window, place);
              }),
              whole());
}

// A forward that was made before is used by the window that has its rows, and by no other.
TEST(Stepper, AForwardMayBeMadeAhead) {
  TRL_NEED_TINY_RUN();
  expect_same(made_by([](Stepper& stepper, const Window& window, const StepPlace& place) {
                stepper.forward_ahead(window, place);
                return stepper.step(window, place);
              }),
              whole());
  expect_same(made_by([](Stepper& stepper, const Window& window, const StepPlace& place) {
                stepper.forward_ahead(std::span(window).last(1), place);
                return stepper.step(window, place);
              }),
              whole());
  expect_same(made_by([](Stepper& stepper, const Window& window, const StepPlace& place) {
                stepper.forward_ahead(window, place);
                stepper.forget_ahead();
                return stepper.step(window, place);
              }),
              whole());
}

TEST(Stepper, AForwardAheadIsNotThatOfWeightsThatChangedSince) {
  TRL_NEED_TINY_RUN();
  const auto loss_of = [](bool ahead) {
    test::SftRun run = tiny_run({});
    Stepper stepper(run.setup);
    Batches batches(*run.setup.train, run.model().config().vocab_size);
    const Window& window = batches.fill_window(1);
    if (ahead) stepper.forward_ahead(window, {0, 1e-3});
    stepper.leave();
    run.model().parameters().front()->write()->mul_(2);
    return stepper.step(window, {0, 1e-3}).loss;
  };
  EXPECT_EQ(loss_of(true), loss_of(false));
}

// Updates within a window are those of windows of their own; the loss is their mean, and the last norm
// counts.
TEST(Stepper, AWindowMayHaveSeveralUpdates) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = tiny_run({}), apart = tiny_run({});
  Stepper stepper(run.setup), alone(apart.setup);
  Batches batches(*run.setup.train, run.model().config().vocab_size);
  Window window = batches.fill_window(3);
  window[0].ends_update = true;
  const Learned step = stepper.step(window, {0, 1e-3});
  const Learned first = alone.step(std::span(window).first(1), {0, 1e-3}),
                second = alone.step(std::span(window).subspan(1), {0, 1e-3});
  EXPECT_EQ(step.losses.size(), 3U);
  EXPECT_FLOAT_EQ(step.loss, (first.loss + second.loss) / 2);
  EXPECT_EQ(step.norm, second.norm);
  EXPECT_EQ(stepper.optimizer().steps(), 2);
  for (size_t i = 0; i < run.weights().size(); ++i)
    EXPECT_TRUE(at::equal(run.weights()[i], apart.weights()[i])) << "weight " << i;
}

// A step that fails in its second update goes on with that one.
TEST(Stepper, AStepGoesOnWithTheUpdateThatFailed) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = tiny_run({}), whole = tiny_run({});
  Stepper stepper(run.setup), other(whole.setup);
  Batches batches(*run.setup.train, run.model().config().vocab_size);
  Window window = batches.fill_window(3);
  for (MicroBatch& batch : window) batch.ends_update = true;
  Window faulty = window;
  faulty[1].targets.tokens.tokens[0] = 1 << 20;
  EXPECT_THROW(stepper.step(faulty, {0, 1e-3}), Error);
  EXPECT_EQ(stepper.updates_done(), 1);
  const Learned step = stepper.step(window, {0, 1e-3});
  EXPECT_EQ(stepper.updates_done(), 0);
  EXPECT_EQ(step.loss, other.step(window, {0, 1e-3}).loss);
  for (size_t i = 0; i < run.weights().size(); ++i)
    EXPECT_TRUE(at::equal(run.weights()[i], whole.weights()[i])) << "weight " << i;
}

// Micro-batches are numbered among those of all processes, and draw their random numbers by that number.
// Twice the loss of half the divisor is exact.
TEST(Stepper, NumbersMicroBatchesOfAllProcesses) {
  TRL_NEED_TINY_RUN();
  const auto losses = [](int64_t processes, int64_t rank, size_t count) {
    test::SftRun run = tiny_run({{"neftune_noise_alpha", "5"}});
    run.setup.processes = processes;
    run.setup.rank = rank;
    Stepper stepper(run.setup);
    Batches batches(*run.setup.train, run.model().config().vocab_size);
    const Window window(count, batches.fill_window(1).at(0));
    return stepper.step(window, StepPlace{0, 1e-3}).losses;
  };
  const std::vector<float> one = losses(1, 0, 2);
  EXPECT_NE(one[0], one[1]);
  EXPECT_EQ(losses(2, 0, 1).at(0), 2 * one[0]);
  EXPECT_EQ(losses(2, 1, 1).at(0), 2 * one[1]);
}

}  // namespace
}  // namespace trl::train::stepper_test
