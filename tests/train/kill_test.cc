// A run that is killed anywhere, also while a checkpoint is written, and started again ends with the weights
// of the run that was left alone, whether it trains a model or an adapter. The run lives in a process of its
// own, which kills itself at a given point: before a write, a rename, a micro-batch or an event.
#include <ATen/Parallel.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "config/lora_config.h"
#include "io/temporary_file.h"
#include "train/forwarded_source.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

constexpr const char* kOutput = "TRL_TEST_KILL_OUTPUT";
constexpr const char* kPoint = "TRL_TEST_KILL_POINT";
constexpr const char* kThreads = "TRL_TEST_KILL_THREADS";
constexpr const char* kTrained = "TRL_TEST_KILL_TRAINED";

// What a run trains.
struct Trained {
  const char* name;
  const char* adapter;  // null: the model
  test::Settings settings;
};
const Trained kAll[] = {
    {"model", nullptr, {}},
    {"lora", R"({"r": 4, "target_modules": ["q_proj", "down_proj"]})", {{"use_peft", "true"}}},
    {"dora",
     R"({"r": 4, "use_dora": true, "lora_dropout": 0.2, "target_modules": "all-linear"})",
     {{"use_peft", "true"}, {"gradient_checkpointing", "true"}}},
    {"qlora",
     R"({"r": 4, "lora_dropout": 0.1, "target_modules": "all-linear"})",
     {{"use_peft", "true"}, {"load_in_4bit", "true"}, {"use_bnb_nested_quant", "true"}, {"bf16", "true"}}}};

const Trained& trained_by_name(std::string_view name) {
  return *std::find_if(std::begin(kAll), std::end(kAll),
                       [&](const Trained& one) { return one.name == name; });
}

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
  int32_t next(const data::Batch** batch, engine::ErrorSink& error) noexcept override {
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
  const Trained& trained = trained_by_name(std::getenv(kTrained));
  test::Settings settings = {{"num_train_epochs", "2"},
                             {"per_device_train_batch_size", "2"},
                             {"gradient_accumulation_steps", "2"},
                             {"train_sampling_strategy", "random"},
                             {"eval_strategy", "steps"},
                             {"eval_steps", "3"},
                             {"save_strategy", "steps"},
                             {"save_steps", "2"},
                             {"save_total_limit", "2"},
                             {"resume_from_checkpoint", "auto"},
                             {"output_dir", output.c_str()}};
  settings.insert(settings.end(), trained.settings.begin(), trained.settings.end());
  test::SftRun run = test::tiny_run(settings, {0, 13}, test::Rows{20, 23});
  if (trained.adapter != nullptr) {
    model::Adapter& adapter = run.model().adapters().add(
        "default",
        config::read_lora_config(base::parse_json(trained.adapter, "test"), "test", Status::format),
        at::kFloat);
    adapter.start(7);
    run.model().train_only(adapter);
  }
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

// true: it ended; false: it was killed. temporary: for its files beside the output.
bool run_child(const std::string& output, const std::string& temporary, const Trained& trained, int threads,
               int64_t point) {
  const pid_t child = fork();
  if (child == 0) {
    setenv(kOutput, output.c_str(), 1);
    setenv(kPoint, std::to_string(point).c_str(), 1);
    setenv(kThreads, std::to_string(threads).c_str(), 1);
    setenv(kTrained, trained.name, 1);
    setenv("TMPDIR", temporary.c_str(), 1);
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

class KilledRun : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(KilledRun, ends_as_if_it_had_not_been_killed) {
  TRL_NEED_TINY_RUN();
  const Trained& trained = trained_by_name(std::get<0>(GetParam()));
  const int threads = std::get<1>(GetParam());
  constexpr unsigned kSeed = 20261121;
  const test::TemporaryDirectory directory = test::TemporaryDirectory::in_memory();
  const std::string temporary = directory.file("temporary");
  base::make_directories(temporary);
  const auto child = [&](const std::string& output, int64_t point) {
    return run_child(output, temporary, trained, threads, point);
  };
  const auto weights = [&](const std::string& output) {
    return base::read_file(output + (trained.adapter != nullptr ? "/adapter_model" : "/model") +
                           ".safetensors");
  };
  ASSERT_TRUE(child(directory.file("whole"), 0));
  const std::string want = weights(directory.file("whole"));
  const int64_t points = std::stoll(base::read_file(directory.file("whole/points")));
  std::mt19937 random(kSeed);
  const char* const rounds = std::getenv("TRL_TEST_KILLS");
  const int usual = trained.adapter != nullptr ? 2 : 5;
  for (int round = 0; round < (rounds != nullptr ? std::atoi(rounds) : usual); ++round) {
    const int64_t point = std::uniform_int_distribution<int64_t>(1, points)(random);
    SCOPED_TRACE(fmt::format("seed {}, round {}: killed at point {} of {}", kSeed, round, point, points));
    const std::string output = directory.file("killed");
    EXPECT_FALSE(child(output, point));
    ASSERT_TRUE(child(output, 0));
    EXPECT_TRUE(weights(output) == want);
    for (const std::string& name : base::list_directory(output)) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    EXPECT_TRUE(base::list_directory(temporary).empty()) << base::list_directory(temporary)[0];
    base::remove_tree(output);
  }
}

std::string killed_name(const testing::TestParamInfo<KilledRun::ParamType>& run) {
  return fmt::format("{}_{}", std::get<0>(run.param), std::get<1>(run.param));
}
INSTANTIATE_TEST_SUITE_P(Threads, KilledRun,
                         testing::Combine(testing::Values("model"), testing::Values(1, 2)), killed_name);
INSTANTIATE_TEST_SUITE_P(Adapters, KilledRun,
                         testing::Combine(testing::Values("lora", "dora", "qlora"), testing::Values(2)),
                         killed_name);

}  // namespace
}  // namespace trl::train
