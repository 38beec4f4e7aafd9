// A source whose next batches do not follow from the position keeps its state in checkpoints.
#include "support/error_of.h"
#include "train/forwarded_source.h"
#include "train/tiny_run.h"

namespace trl::train::source_state_test {
namespace {

using test::tiny_run;

// Gives a new batch and the one before it by turns, as a buffer of completions does that are used twice; the
// position does not say which comes next, and start_epoch() forgets it.
class Replay final : public test::ForwardedSource {
 public:
  using ForwardedSource::ForwardedSource;
  int32_t start_epoch(int64_t epoch, int64_t, std::span<const int64_t> before,
                      engine::ErrorSink& error) noexcept override {
    kept_.reset();
    drawn_ = 0;
    return ForwardedSource::start_epoch(epoch, 0, before, error);
  }
  int32_t next(const data::Batch** batch, engine::ErrorSink& error) noexcept override {
    if (fails-- == 0) {
      error.set({Status::callback, "no completion"});
      return static_cast<int32_t>(Status::callback);
    }
    if (!kept_) {
      if (const int32_t status = draw(batch, error); status != 0) return status;
      kept_ = **batch;
      return 0;
    }
    given_ = std::move(*kept_);
    kept_.reset();
    *batch = &given_;
    return 0;
  }
  int32_t state(std::string_view* bytes, engine::ErrorSink&) noexcept override {
    state_ = fmt::format("{} {}", drawn_, kept_ ? 1 : 0);
    *bytes = state_;
    return 0;
  }
  int32_t load_state(std::string_view bytes, engine::ErrorSink& error) noexcept override {
    const auto drawn = std::stoll(std::string(bytes));
    const data::Batch* batch = nullptr;
    while (drawn_ < drawn)
      if (const int32_t status = draw(&batch, error); status != 0) return status;
    if (bytes.ends_with("1")) kept_ = *batch;
    return 0;
  }
  int64_t fails = -1;  // calls of next() before one that fails

 private:
  int32_t draw(const data::Batch** batch, engine::ErrorSink& error) {
    ++drawn_;
    return ForwardedSource::next(batch, error);
  }

  std::optional<data::Batch> kept_;
  data::Batch given_;
  int64_t drawn_ = 0;
  std::string state_;
};

using Losses = std::vector<double>;

Losses losses_of(Trainer& trainer, int64_t fails_at = -1, Replay* source = nullptr) {
  Losses losses;
  for (;;) {
    if (std::ssize(losses) == fails_at) {
      source->fails = 1;  // in the middle of a window
      EXPECT_EQ(test::error_of([&] { trainer.step(); }).first, Status::callback);
      fails_at = -1;
    }
    if (!trainer.step()) return losses;
    losses.push_back(test::value(trainer.metrics(), "loss"));
  }
}

const test::Settings kSettings = {{"max_steps", "5"}, {"gradient_accumulation_steps", "3"}};

TEST(SourceState, ARunResumesInTheMiddleOfAReplay) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string whole = scratch / "whole", rest = scratch / "rest";
  const auto settings = [](const std::string& output) {
    test::Settings all = kSettings;
    all.insert(all.end(), {{"save_strategy", "steps"}, {"save_steps", "1"}, {"output_dir", output.c_str()}});
    return all;
  };
  test::SftRun run = tiny_run(settings(whole));
  Replay source(run.train_stream());
  run.setup.train = &source;
  const Losses want = losses_of(run.start());
  const std::vector<at::Tensor> weights = run.weights();
  run.stop();
  ASSERT_EQ(want.size(), 5U);
  for (const int64_t from : {1, 2, 3}) {
    SCOPED_TRACE(from);
    test::SftRun resumed = tiny_run(settings(rest + std::to_string(from)));
    Replay again(resumed.train_stream());
    resumed.setup.train = &again;
    Trainer& trainer = resumed.start();
    trainer.resume(fmt::format("{}/checkpoint-{}", whole, from));
    EXPECT_EQ(losses_of(trainer), Losses(want.begin() + from, want.end()));
    const std::vector<at::Tensor> got = resumed.weights();
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(at::equal(got[i], weights[i])) << i;
  }
}

TEST(SourceState, AWindowThatFailedBeginsAgain) {
  TRL_NEED_TINY_RUN();
  const auto losses = [](int64_t fails_at) {
    test::SftRun run = tiny_run(kSettings);
    Replay source(run.train_stream());
    run.setup.train = &source;
    return losses_of(run.start(), fails_at, &source);
  };
  EXPECT_EQ(losses(1), losses(-1));
  EXPECT_EQ(losses(2), losses(-1));
}

TEST(SourceState, OrdinaryRowsRefuseOne) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = tiny_run({});
  Batches batches(run.train_stream(), run.model().config().vocab_size);
  batches.go_to(0, 2, "a state");
  EXPECT_EQ(
      test::error_of([&] { batches.fill_window(1); }),
      std::pair(Status::invalid_argument,
                std::string("these rows have no state, and the checkpoint has one: it is of other rows")));
}

}  // namespace
}  // namespace trl::train::source_state_test
