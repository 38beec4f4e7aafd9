// A run that is killed anywhere, also while a checkpoint is written, and started again ends with the weights
// of the run that was left alone. The run lives in a process of its own, which kills itself at a given point:
// before a write, a rename, a micro-batch or an event.
#include <ATen/Parallel.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "io/temporary_file.h"
#include "train/forwarded_source.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

constexpr const char* kOutput = "TRL_TEST_KILL_OUTPUT";
constexpr const char* kPoint = "TRL_TEST_KILL_POINT";
constexpr const char* kThreads = "TRL_TEST_KILL_THREADS";

// Counts points; dies at the chosen one.
struct Points {
  void pass() {
    if (++passed == last) std::raise(SIGKILL);
  }
  int64_t passed = 0;
  int64_t last = 0;  // 0: none
};

class KillingSource final : public test::ForwardedSource {
 public:
  KillingSource(engine::BatchSource& source, Points& points) : ForwardedSource(source), points_(points) {}
  int32_t next(engine::Batch* batch, engine::ErrorSink& error) noexcept override {
    points_.pass();
    return ForwardedSource::next(batch, error);
  }

 private:
  Points& points_;
};

class KillingEvents final : public engine::EventSink {
 public:
  explicit KillingEvents(Points& points) : points_(points) {}
  int32_t on_event(const engine::Event&) noexcept override {
    points_.pass();
    return 0;
  }

 private:
  Points& points_;
};

// Run by the other test, in a process of its own.
TEST(Kill, DISABLED_child) {
  const std::string output = std::getenv(kOutput);
  at::set_num_threads(std::atoi(std::getenv(kThreads)));
  Points points;
  points.last = std::atoll(std::getenv(kPoint));
  test::SftRun run = test::tiny_run({{"num_train_epochs", "2"},
                                     {"per_device_train_batch_size", "2"},
                                     {"gradient_accumulation_steps", "2"},
                                     {"train_sampling_strategy", "random"},
                                     {"eval_strategy", "steps"},
                                     {"eval_steps", "3"},
                                     {"save_strategy", "steps"},
                                     {"save_steps", "2"},
                                     {"save_total_limit", "2"},
                                     {"resume_from_checkpoint", "auto"},
                                     {"output_dir", output.c_str()}},
                                    {0, 13}, test::Rows{20, 23});
  KillingSource source(*run.setup.train, points);
  KillingEvents events(points);
  const base::WriteFault before_write = [&](const std::string&, size_t) { points.pass(); };
  run.setup.train = &source;
  run.setup.events = &events;
  run.setup.write_fault = &before_write;
  Trainer& trainer = run.start();
  trainer.resume_as_configured();
  while (trainer.step()) {
  }
  trainer.finish();
  trainer.save_model();
  base::write_file(output + "/points", std::to_string(points.passed));
}

// true: it ended; false: it was killed.
bool run_child(const std::string& output, int threads, int64_t point) {
  const pid_t child = fork();
  if (child == 0) {
    setenv(kOutput, output.c_str(), 1);
    setenv(kPoint, std::to_string(point).c_str(), 1);
    setenv(kThreads, std::to_string(threads).c_str(), 1);
    if (freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    execl("/proc/self/exe", "train_test", "--gtest_also_run_disabled_tests",
          "--gtest_filter=Kill.DISABLED_child", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
              (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
      << "status " << status;
  return WIFEXITED(status);
}

class KilledRun : public testing::TestWithParam<int> {};

TEST_P(KilledRun, ends_as_if_it_had_not_been_killed) {
  TRL_NEED_TINY_RUN();
  const int threads = GetParam();
  constexpr unsigned kSeed = 20261121;
  const test::TemporaryDirectory directory = test::TemporaryDirectory::in_memory();
  const auto weights = [](const std::string& output) {
    return base::read_file(output + "/model.safetensors");
  };
  ASSERT_TRUE(run_child(directory.file("whole"), threads, 0));
  const std::string want = weights(directory.file("whole"));
  const int64_t points = std::stoll(base::read_file(directory.file("whole/points")));
  std::mt19937 random(kSeed);
  const char* const rounds = std::getenv("TRL_TEST_KILLS");
  for (int round = 0; round < (rounds != nullptr ? std::atoi(rounds) : 5); ++round) {
    const int64_t point = std::uniform_int_distribution<int64_t>(1, points)(random);
    SCOPED_TRACE(fmt::format("seed {}, round {}: killed at point {} of {}", kSeed, round, point, points));
    const std::string output = directory.file("killed");
    EXPECT_FALSE(run_child(output, threads, point));
    ASSERT_TRUE(run_child(output, threads, 0));
    EXPECT_TRUE(weights(output) == want);
    for (const std::string& name : base::list_directory(output)) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    base::remove_tree(output);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, KilledRun, testing::Values(1, 2));

}  // namespace
}  // namespace trl::train
