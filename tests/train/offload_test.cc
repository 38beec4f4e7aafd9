// Runs whose activations leave memory, in every form of recomputing: every bit as without.
#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <set>

#include "tensor/memory/rehearsal.h"
#include "train/memory/offloading.h"
#include "train/tiny_run.h"

namespace trl::train::offload_test {
namespace {

using test::joined;
using test::Settings;

// A disk, which the directory of temporary files may not be.
constexpr const char* kDisk = TRL_BINARY_DIR;

struct Outcome {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
  int64_t peak = 0;  // counted bytes of activations
};
Outcome outcome(const Settings& settings) {
  test::SftRun run = test::tiny_run(settings);
  Trainer& trainer = run.start();
  test::memory().reset_peak();
  Outcome all;
  while (trainer.step()) all.losses.push_back(test::value(trainer.metrics(), "loss"));
  all.peak = test::memory().peak(base::MemoryKind::activations);
  all.weights = run.weights();
  return all;
}

void expect_same(const Outcome& got, const Outcome& want) {
  EXPECT_EQ(got.losses, want.losses);
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (size_t i = 0; i < got.weights.size(); ++i)
    EXPECT_TRUE(at::equal(got.weights[i], want.weights[i])) << i;
}

const Settings kShort = {{"max_steps", "3"}, {"gradient_accumulation_steps", "2"}, {"offload_dir", kDisk}};

TEST(OffloadedRun, HasTheSameBitsInEveryForm) {
  TRL_NEED_TINY_RUN();
  const std::vector<Settings> kinds = {{{"bf16", "true"}},
                                       {{"dtype", "bfloat16"}},
                                       {{"packing", "true"}, {"max_length", "64"}, {"bf16", "true"}},
                                       {{"padding_free", "true"}, {"max_length", "null"}},
                                       {{"neftune_noise_alpha", "5"}, {"label_smoothing_factor", "0.1"}}};
  const std::vector<Settings> ways = {
      {{"activation_offloading", "true"}},
      {{"activation_offloading", "true"},
       {"activation_offloading_min_bytes", "0"},
       {"activation_offloading_zstd", "true"}},
      {{"gradient_checkpointing", "true"}, {"gradient_checkpointing_kwargs", "{offload: true}"}},
      {{"gradient_checkpointing", "true"}, {"gradient_checkpointing_kwargs", "{selective: true}"}},
      {{"gradient_checkpointing", "true"}, {"recompute", "products"}},
      {{"gradient_checkpointing", "true"},
       {"gradient_checkpointing_kwargs", "{selective: true, offload: true, every_n_layers: 2}"},
       {"activation_offloading", "true"}},
      {{"gradient_checkpointing", "true"}, {"recompute", "products"}, {"activation_offloading", "true"}},
      {{"gradient_checkpointing", "true"}, {"activation_offloading", "true"}, {"fused_kernels", "off"}}};
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const Settings base = joined(kShort, kinds[kind]);
    const Outcome want = outcome(base), plain = outcome(joined(base, {{"fused_kernels", "off"}}));
    for (size_t way = 0; way < ways.size(); ++way) {
      SCOPED_TRACE(fmt::format("kind {} way {}", kind, way));
      expect_same(outcome(joined(base, ways[way])), way + 1 == ways.size() ? plain : want);
    }
  }
}

TEST(OffloadedRun, TheMoreIsComputedAgainTheLessIsCounted) {
  TRL_NEED_TINY_RUN();
  const std::vector<Settings> ways = {
      {}, {{"gradient_checkpointing_kwargs", "{selective: true}"}}, {{"recompute", "layers"}}};
  std::vector<int64_t> peaks;  // of two layers: less than that of one would show nothing of products
  for (const Settings& way : ways) {
    const Settings base = {{"max_steps", "2"},
                           {"bf16", "true"},
                           {"per_device_train_batch_size", "16"},
                           {"gradient_checkpointing", way.empty() ? "false" : "true"}};
    peaks.push_back(outcome(joined(base, way)).peak);
  }
  EXPECT_TRUE(std::is_sorted(peaks.rbegin(), peaks.rend())) << testing::PrintToString(peaks);
  EXPECT_EQ(std::set<int64_t>(peaks.begin(), peaks.end()).size(), peaks.size());
}

int64_t open_files() {
  DIR* const directory = ::opendir("/proc/self/fd");
  int64_t count = 0;
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

// Of the first rows, with more settings. In the end it has taken so many steps.
void run_steps(const Settings& more, int64_t steps, const std::function<void(int64_t done)>& after) {
  const std::string count = std::to_string(steps);
  const Settings base = {
      {"max_steps", count.c_str()}, {"num_train_epochs", "100"}, {"logging_strategy", "no"}};
  test::SftRun run = test::tiny_run(joined(base, more), {0, 7});
  Trainer& trainer = run.start();
  test::memory().reset_peak();
  while (trainer.step()) after(trainer.state().global_step);
  EXPECT_EQ(trainer.state().global_step, steps);
}

TEST(OffloadedRun, AThousandStepsDoNotGrow) {
  TRL_NEED_TINY_RUN();
  const int64_t files = open_files();
  int64_t all_kept = 0, most = 0, open = 0, resident = 0;
  run_steps({}, 4, [&](int64_t) { all_kept = test::memory().peak(); });
  const auto most_resident = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  run_steps({{"offload_dir", kDisk}, {"activation_offloading", "true"}}, 1000, [&](int64_t done) {
    most = test::memory().peak();
    if (done == 50) {
      resident = most_resident();
      open = open_files();
    }
    if (done == 1000) {
      EXPECT_EQ(open_files(), open);
    }
  });
  EXPECT_LE(most, all_kept + all_kept / 20);
#ifdef __SANITIZE_ADDRESS__
  constexpr int64_t kKept = 256 * 1024;  // KiB of freed memory that it sets apart
#else
  constexpr int64_t kKept = 0;
#endif
  EXPECT_LT(most_resident() - resident, 8 * 1024 + kKept);
  EXPECT_EQ(open_files(), files);
}

TEST(OffloadedRun, AFullDiskIsAnErrorAndTheStepIsTriedAgain) {
  TRL_NEED_TINY_RUN();
  // A tensor that backward asks for before it is written stays: of many, some are written on any machine.
  const Settings settings = joined(kShort, {{"activation_offloading", "true"}, {"max_steps", "20"}});
  const Outcome want = outcome(settings);
  std::atomic<int64_t> left{INT64_MAX};
  const base::WriteFault fault = [&](const std::string& path, size_t) {
    if (path == kDisk && left-- <= 0) fail(Status::io, "{}: the disk is full", path);
  };
  for (const int64_t room : {0, 3}) {
    test::SftRun run = test::tiny_run(settings);
    run.setup.write_fault = &fault;
    Trainer& trainer = run.start();
    left = room;
    int failures = 0;
    for (bool more = true; more;) {
      const int64_t step = trainer.state().global_step;
      try {
        more = trainer.step();
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::io);
        EXPECT_EQ(error.message(), std::string(kDisk) + ": the disk is full");
        EXPECT_EQ(trainer.state().global_step, step);
        left = INT64_MAX;
        ++failures;
      }
    }
    EXPECT_EQ(failures, 1);
    const std::vector<at::Tensor> got = run.weights();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], want.weights[i])) << i;
  }
}

// What a few tokens leave behind tells what a batch does: the same as its rehearsal finds.
TEST(OffloadedRun, WhatABatchTakesOfTheDiskIsKnownBefore) {
  TRL_NEED_TINY_RUN();
  for (const char* const again : {"false", "true"}) {
    SCOPED_TRACE(again);
    const Settings settings = {{"activation_offloading", "true"},
                               {"per_device_train_batch_size", "16"},
                               {"gradient_checkpointing", again},
                               {"on_nonfinite", "continue"},
                               {"offload_dir", kDisk}};
    int64_t rehearsed = 0;
    {
      const tensor::Rehearsal rehearsal;
      test::SftRun run = test::tiny_run(settings);
      Trainer& trainer = run.start();
      trainer.rehearse();
      rehearsed = trainer.disk_needs().activation_bytes;
    }
    test::SftRun run = test::tiny_run(settings);
    run.start();  // what has gradients
    Batches batches(run.train_stream(), run.model().config().vocab_size);
    const int64_t tokens = batches.fill_window(1)[0].input_ids.numel();
    Offloading offloading(run.setup, kernels::Path::fused);
    const auto method = make_method({run.setup.arguments, run.model()});
    constexpr int64_t kTensors = 100;  // whose last page is not full
    EXPECT_GT(rehearsed, 0);
    EXPECT_NEAR(static_cast<double>(offloading.bytes(tokens, *method)), static_cast<double>(rehearsed),
                kTensors * 4096);
  }
}

TEST(OffloadedRun, RowsAreLookedAtWhereMaxLengthAllowsTooMuch) {
  TRL_NEED_TINY_RUN();
  const Settings settings = joined(kShort, {{"activation_offloading", "true"}});
  const auto rows_read = [&](int64_t longest_row) {
    test::SftRun run = test::tiny_run(settings);
    run.setup.longest_row = longest_row;
    Trainer& trainer = run.start();
    trainer.need_disks();
    EXPECT_TRUE(trainer.step());
    return run.train_stream().order.size();
  };
  EXPECT_EQ(rows_read(1024), 2u);  // the batches of one step
  EXPECT_EQ(rows_read(int64_t{1} << 40), 18u);
  EXPECT_EQ(rows_read(0), 18u);
}

// A micro-batch of pairs has twice as many sequences as rows: where the rows alone would fit, they are looked
// at.
TEST(OffloadedRun, BothAnswersOfAPairLeave) {
  TRL_NEED_TINY_RUN();
  const auto rows_are_read = [](const char* method, const char* rows) {
    const auto config = test::tiny_config(
        joined(kShort, {{"method", method}, {"activation_offloading", "true"}, {"max_length", "null"}}));
    const auto start = [&] {
      return test::SftRun(config, test::golden_path("models/qwen2"), test::golden_path(rows), {0, 31});
    };
    test::SftRun counted = start(), run = start();
    counted.start();  // what has gradients
    const auto made = make_method({counted.setup.arguments, counted.model(), nullptr, counted.setup.source});
    constexpr int64_t kTokens = 1024;
    Offloading offloading(counted.setup, kernels::Path::fused);
    const double of_token = static_cast<double>(offloading.bytes(kTokens, *made)) / kTokens;
    const auto free = static_cast<double>(free_on_disk(kDisk));
    run.setup.longest_row = static_cast<int64_t>(0.7 * free / (4 * of_token));  // batches of four
    run.start().need_disks();
    return !run.train_stream().order.empty();
  };
  EXPECT_FALSE(rows_are_read("sft", "data/datasets/train_lm.jsonl"));
  EXPECT_TRUE(rows_are_read("dpo", "data/datasets/train_pref_chat.jsonl"));
}

// The run makes the directory that is named, and no other.
TEST(OffloadedRun, ADirectoryThatIsNamedIsMade) {
  TRL_NEED_TINY_RUN();
  const std::string directory = kDisk + fmt::format("/made.{}/below", getpid());
  for (const Settings& settings :
       {Settings{{"optim", "paged_adamw_8bit"}}, Settings{{"activation_offloading", "true"}}}) {
    const std::filesystem::path above = std::filesystem::path(directory).parent_path();
    test::SftRun run = test::tiny_run(joined(settings, {{"offload_dir", directory.c_str()}}));
    run.start();
    EXPECT_TRUE(std::filesystem::is_directory(directory));
    std::filesystem::remove_all(above);
  }
}

TEST(OffloadedRun, WhatCannotLeaveIsRefused) {
  TRL_NEED_TINY_RUN();
  const auto message = [](const Settings& settings) {
    test::SftRun run = test::tiny_run(settings);
    try {
      run.start();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_config);
      return std::string(error.message());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(
      message({{"activation_offloading", "true"}, {"fused_kernels", "off"}, {"offload_dir", kDisk}}),
      "activation_offloading: with fused_kernels: off PyTorch's own operators keep the activations, and "
      "nothing can move them: give gradient_checkpointing: true, so that it is the inputs of the layers "
      "that leave");
}

}  // namespace
}  // namespace trl::train::offload_test
