// A run that resumes from a checkpoint is the run that never ended: weights, optimizer state, records, order
// of the rows, bit by bit.
#include <random>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "io/temporary_file.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::history;
using test::Settings;
using test::SftRun;
using test::TemporaryDirectory;
using test::tiny_run;

struct RunOutcome {
  std::vector<std::string> history;
  std::vector<at::Tensor> weights;
  std::vector<std::vector<int64_t>> order;
};

RunOutcome outcome(SftRun& run, Trainer& trainer) {
  while (trainer.step()) {
  }
  trainer.finish();
  return {history(trainer.state()), run.weights(), run.train_stream().order};
}

void expect_equal(const RunOutcome& got, const RunOutcome& want) {
  EXPECT_EQ(got.history, want.history);
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (size_t i = 0; i < want.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(got.weights[i], want.weights[i])) << "weight " << i;
  }
  // What a resumed run reads is the end of what the whole one read.
  ASSERT_LE(got.order.size(), want.order.size());
  EXPECT_TRUE(std::equal(got.order.rbegin(), got.order.rend(), want.order.rbegin()));
}

struct Case {
  const char* name;
  Settings settings;
  test::Rows rows;
  std::optional<test::Rows> eval_rows;
};

const Case kCases[] = {
    {"plain", {{"max_steps", "5"}, {"save_steps", "1"}}, {0, 63}, {}},
    {"accumulation_shuffled_two_epochs",
     {{"num_train_epochs", "2"},
      {"per_device_train_batch_size", "2"},
      {"gradient_accumulation_steps", "2"},
      {"train_sampling_strategy", "random"},
      {"save_steps", "1"}},
     {0, 13},
     {}},
    {"packed_shuffled_two_epochs",
     {{"num_train_epochs", "2"},
      {"per_device_train_batch_size", "2"},
      {"packing", "true"},
      {"max_length", "40"},
      {"shuffle_dataset", "true"},
      {"train_sampling_strategy", "random"},
      {"save_steps", "1"}},
     {0, 23},
     {}},
    {"split_packs_grouped_by_length",
     {{"num_train_epochs", "3"},
      {"per_device_train_batch_size", "2"},
      {"packing", "true"},
      {"packing_strategy", "bfd_split"},
      {"max_length", "24"},
      {"train_sampling_strategy", "group_by_length"},
      {"save_steps", "2"}},
     {0, 15},
     {}},
    {"wrapped_with_accumulation",
     {{"num_train_epochs", "2"},
      {"per_device_train_batch_size", "2"},
      {"gradient_accumulation_steps", "3"},
      {"packing", "true"},
      {"packing_strategy", "wrapped"},
      {"max_length", "32"},
      {"train_sampling_strategy", "random"},
      {"save_steps", "1"}},
     {0, 23},
     {}},
    {"eval_between_logging_3",
     {{"num_train_epochs", "2"},
      {"logging_steps", "3"},
      {"eval_strategy", "steps"},
      {"eval_steps", "2"},
      {"train_sampling_strategy", "random"},
      {"lr_scheduler_type", "cosine"},
      {"warmup_steps", "2"},
      {"save_steps", "1"}},
     {0, 18},
     test::Rows{20, 26}},
    {"epoch_strategies",
     {{"num_train_epochs", "3"},
      {"logging_strategy", "epoch"},
      {"eval_strategy", "epoch"},
      {"save_strategy", "epoch"}},
     {0, 10},
     test::Rows{20, 26}},
    {"bf16_weights",
     {{"num_train_epochs", "2"},
      {"dtype", "bfloat16"},
      {"bf16", "true"},
      {"logging_steps", "3"},
      {"gradient_checkpointing", "true"},
      {"save_steps", "1"}},
     {0, 12},
     {}},
    {"eight_bit_states",
     {{"num_train_epochs", "2"},
      {"dtype", "bfloat16"},
      {"bf16", "true"},
      {"optim", "adamw_8bit"},
      {"optim_8bit_embeddings", "true"},
      {"stochastic_rounding", "true"},
      {"save_steps", "1"}},
     {0, 12},
     {}},
    {"paged_states",
     {{"num_train_epochs", "2"},
      {"optim", "paged_ademamix_8bit"},
      {"optim_args", "t_alpha=4,t_beta3=6"},
      {"offload_dir", TRL_BINARY_DIR},
      {"save_steps", "1"}},
     {0, 12},
     {}},
};

class Resume : public testing::TestWithParam<size_t> {};

TEST_P(Resume, is_bit_equal_from_every_checkpoint) {
  TRL_NEED_TINY_RUN();
  const Case& one = kCases[GetParam()];
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  const auto with = [&](const std::string& output) {
    Settings settings = {{"save_strategy", "steps"}};
    settings.insert(settings.end(), one.settings.begin(), one.settings.end());
    settings.push_back({"output_dir", output.c_str()});
    return tiny_run(settings, one.rows, one.eval_rows);
  };
  const std::string whole = directory.file("whole");
  SftRun run = with(whole);
  const RunOutcome want = outcome(run, run.start());
  int resumed = 0;
  for (const std::string& name : base::list_directory(whole)) {
    if (!name.starts_with("checkpoint-")) continue;
    SCOPED_TRACE(name);
    SftRun again = with(directory.file("again"));
    Trainer& trainer = again.start();
    trainer.resume(base::join_path(whole, name));
    EXPECT_EQ(fmt::format("checkpoint-{}", trainer.state().global_step), name);
    expect_equal(outcome(again, trainer), want);
    for (const char* file : {"optimizer.safetensors", "model.safetensors"}) {
      const std::string last = fmt::format("checkpoint-{}/{}", trainer.state().global_step, file);
      if (!base::file_exists(directory.file("again/" + last))) continue;  // the last one was resumed
      EXPECT_EQ(base::read_file(directory.file("again/" + last)),
                base::read_file(base::join_path(whole, last)))
          << file;
    }
    base::remove_tree(directory.file("again"));
    ++resumed;
  }
  EXPECT_GE(resumed, 3);
}

TEST(Cancel, then_save_and_resume_is_the_run_that_went_on) {
  TRL_NEED_TINY_RUN();
  constexpr unsigned kSeed = 7;
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  const std::string output = directory.file("out");
  const auto make = [&] {
    return tiny_run({{"num_train_epochs", "2"},
                     {"per_device_train_batch_size", "2"},
                     {"gradient_accumulation_steps", "2"},
                     {"train_sampling_strategy", "random"},
                     {"logging_steps", "3"},
                     {"eval_strategy", "steps"},
                     {"eval_steps", "2"},
                     {"eval_on_start", "true"},
                     {"output_dir", output.c_str()}},
                    {0, 13}, test::Rows{20, 26});
  };
  test::StopsAt count;
  SftRun whole = make();
  Trainer& undisturbed = whole.start();
  const RunOutcome want = [&] {
    const base::InterruptScope scope(&count);
    return outcome(whole, undisturbed);
  }();
  std::mt19937 random(kSeed);
  for (int round = 0; round < 12; ++round) {
    const int64_t at = std::uniform_int_distribution<int64_t>(1, count.polls)(random);
    test::StopsAt cancel(at);
    SCOPED_TRACE(fmt::format("seed {}, cancelled at poll {} of {}", kSeed, at, count.polls.load()));
    SftRun run = make();
    Trainer& trainer = run.start();
    {
      const base::InterruptScope scope(&cancel);
      EXPECT_THROW(outcome(run, trainer), Error);
    }
    trainer.save_checkpoint(directory.file("saved"));
    SftRun again = make();
    Trainer& resumed = again.start();
    resumed.resume(directory.file("saved"));
    expect_equal(outcome(again, resumed), want);
    // The one that was cancelled can go on as well.
    while (trainer.step()) {
    }
    trainer.finish();
    EXPECT_EQ(history(trainer.state()), want.history);
    base::remove_tree(directory.file("saved"));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Resume, testing::Range(size_t{0}, std::size(kCases)),
                         [](const auto& param) { return kCases[param.param].name; });

}  // namespace
}  // namespace trl::train
