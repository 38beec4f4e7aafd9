// cache_frozen_layers: the same run bit by bit, whatever is on disk already.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config/lora_config.h"
#include "kernels/gemm/gemm_int8.h"
#include "support/error_of.h"
#include "support/warnings.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUpper =
    R"({"r": 4, "target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]})";

test::SftRun upper_run(test::Settings settings, const std::string& cache = {}) {
  settings.insert(settings.begin(), {{"use_peft", "true"},
                                     {"num_train_epochs", "2"},
                                     {"train_sampling_strategy", "random"},
                                     {"eval_strategy", "epoch"},
                                     {"on_nonfinite", "continue"}});
  if (!cache.empty()) settings.emplace_back("cache_frozen_layers", cache.c_str());
  return test::tiny_run(settings, {0, 15}, test::Rows{20, 24});
}

void add_upper(test::SftRun& run, const char* text = kUpper) {
  const config::LoraConfig config =
      config::read_lora_config(base::parse_json(text, "test"), "test", Status::format);
  model::Adapter& adapter = run.model().adapters().add("default", config, at::kFloat);
  adapter.start(7);
  run.model().train_only(adapter);
}

// Whoever computes with the lower layer from here on gets numbers that are none.
void spoil_lower_layer(model::Model& model) {
  for (tensor::Parameter* p : model.parameters()) {
    if (p->name.find("layers.0.") != std::string::npos) p->write()->fill_(std::nan(""));
  }
}

struct UpperOutcome {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
  bool operator==(const UpperOutcome& other) const {
    if (losses != other.losses || weights.size() != other.weights.size()) return false;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!at::equal(weights[i], other.weights[i])) return false;
    }
    return true;
  }
};

// spoil_after: steps.
UpperOutcome outcome_of(test::SftRun&& run, int64_t spoil_after = -1, const char* adapter = kUpper) {
  add_upper(run, adapter);
  Trainer& trainer = run.start();
  if (spoil_after == 0) spoil_lower_layer(run.model());
  while (trainer.step()) {
    if (trainer.state().global_step == spoil_after) spoil_lower_layer(run.model());
  }
  UpperOutcome out;
  for (const telemetry::Record& record : trainer.state().log_history) {
    for (const char* name : {"loss", "eval_loss", "grad_norm"}) {
      if (const double logged = test::value(record, name); logged != -1) out.losses.push_back(logged);
    }
  }
  for (tensor::Parameter* p : run.model().adapters().get("default").parameters())
    out.weights.push_back(p->read()->clone());
  return out;
}

std::vector<std::string> state_files(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.path().extension() == ".states") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Without the lower layer: the second epoch, and the whole run when the directory is full.
TEST(FrozenLayers, TheSameBitsWithoutComputingThemAgain) {
  TRL_NEED_TINY_RUN();
  const test::Settings cases[] = {
      {},
      {{"padding_free", "true"}, {"max_length", "null"}},
      {{"packing", "true"}, {"max_length", "64"}},
      {{"packing", "true"}, {"max_length", "48"}, {"packing_strategy", "wrapped"}},
      {{"bf16", "true"}, {"gradient_accumulation_steps", "2"}},
      {{"dtype", "bfloat16"}, {"gradient_checkpointing", "true"}},
      {{"per_device_train_batch_size", "1"}, {"max_length", "8"}}};
  for (const test::Settings& settings : cases) {
    SCOPED_TRACE(settings.empty() ? "padded" : settings[0].first);
    const test::Scratch scratch;
    test::SftRun probe = upper_run(settings);
    add_upper(probe);
    const int64_t epoch = probe.start().max_steps() / 2;
    const UpperOutcome want = outcome_of(upper_run(settings));
    ASSERT_GT(want.losses.size(), 4u);
    EXPECT_TRUE(outcome_of(upper_run(settings, scratch / "cache"), epoch) == want);
    EXPECT_TRUE(outcome_of(upper_run(settings, scratch / "cache"), 0) == want);
    EXPECT_FALSE(outcome_of(upper_run(settings), epoch) == want) << "the probe probes nothing";
  }
}

// Products in 8-bit integers make other states of a row than those in bfloat16.
TEST(FrozenLayers, ThoseOfInt8AreOthers) {
  TRL_NEED_TINY_RUN();
  if (!kernels::has_int8_products()) {
    GTEST_SKIP() << "this processor has no products in 8-bit integers (AVX512-VNNI, AMX)";
  }
  const test::Scratch scratch;
  const std::string cache = scratch / "cache", of_wide = scratch / "of_wide";
  const test::Settings wide = {{"bf16", "true"}}, narrow = {{"bf16", "true"}, {"frozen_compute", "int8"}};
  const UpperOutcome want = outcome_of(upper_run(narrow));
  EXPECT_FALSE(want == outcome_of(upper_run(wide, of_wide))) << "int8 has changed nothing";
  EXPECT_TRUE(outcome_of(upper_run(narrow, cache)) == want);
  EXPECT_TRUE(outcome_of(upper_run(narrow, cache), 0) == want);
  const auto [status, message] = test::error_of([&] { outcome_of(upper_run(narrow, of_wide)); });
  EXPECT_EQ(status, Status::invalid_config);
  EXPECT_NE(message.find("with products: BFloat16, and those of this run ("), std::string::npos) << message;
  EXPECT_NE(message.find(") have products: int8;"), std::string::npos) << message;
}

// Dropout of the adapter above, and rows that are in another order and other batches.
TEST(FrozenLayers, ServeOtherRunsOverTheSameRows) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string cache = scratch / "cache";
  outcome_of(upper_run({}, cache));
  const test::Settings other = {{"seed", "5"}, {"per_device_train_batch_size", "3"}};
  constexpr const char* kDropping =
      R"({"r": 2, "lora_dropout": 0.3, "target_modules": ["v_proj"], "layers_to_transform": [1]})";
  const UpperOutcome want = outcome_of(upper_run(other), -1, kDropping);
  EXPECT_TRUE(outcome_of(upper_run(other, cache), 0, kDropping) == want);
}

TEST(FrozenLayers, CompressedFilesAreSmallerAndReadAlike) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string plain = scratch / "plain", packed = scratch / "packed";
  const test::Settings zstd = {{"cache_frozen_layers_zstd", "true"}};
  const UpperOutcome want = outcome_of(upper_run({}));
  EXPECT_TRUE(outcome_of(upper_run({}, plain)) == want);
  EXPECT_TRUE(outcome_of(upper_run(zstd, packed)) == want);
  EXPECT_TRUE(outcome_of(upper_run({}, packed), 0) == want);
  const auto bytes = [](const std::string& directory) {
    uintmax_t sum = 0;
    for (const std::string& file : state_files(directory)) sum += fs::file_size(file);
    return sum;
  };
  EXPECT_EQ(state_files(plain).size(), state_files(packed).size());
  EXPECT_LT(bytes(packed), bytes(plain));
}

TEST(FrozenLayers, AResumedRunIsTheWholeOne) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string output = scratch / "output", cache = scratch / "cache";
  const test::Settings saving = {
      {"save_strategy", "steps"}, {"save_steps", "3"}, {"output_dir", output.c_str()}};
  const UpperOutcome want = outcome_of(upper_run(saving, cache));
  for (const std::string& directory : {cache, scratch / "empty", std::string()}) {
    test::SftRun run = upper_run({}, directory);
    add_upper(run);
    Trainer& trainer = run.start();
    trainer.resume(output + "/checkpoint-3");
    while (trainer.step()) {
    }
    const auto got = run.model().adapters().get("default").parameters();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(*got[i]->read(), want.weights[i]));
  }
}

TEST(FrozenLayers, DamagedFilesAreNamedAndWrittenAnew) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string cache = scratch / "cache";
  const UpperOutcome want = outcome_of(upper_run({}, cache));
  const std::vector<std::string> files = state_files(cache);
  ASSERT_GE(files.size(), 5u);
  const std::vector<std::string> damaged(files.begin(), files.begin() + 5);
  {
    std::fstream file(damaged[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(100);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(100);
    file.put(byte);
  }
  fs::resize_file(damaged[1], fs::file_size(damaged[1]) / 2);
  fs::resize_file(damaged[2], 0);
  fs::resize_file(damaged[3], fs::file_size(damaged[3]) + 1);
  std::ofstream(damaged[4]) << "something else that is long enough for a header and a checksum";
  const auto run_with = [&](base::LogSink& log) {
    test::SftRun run = upper_run({}, cache);
    run.setup.log = &log;
    return outcome_of(std::move(run));
  };
  test::Warnings log;
  EXPECT_TRUE(run_with(log) == want);
  ASSERT_EQ(log.lines.size(), damaged.size());
  for (const std::string& file : damaged) {
    const auto names = [&](const std::string& line) { return line.find(file) != std::string::npos; };
    EXPECT_EQ(std::count_if(log.lines.begin(), log.lines.end(), names), 1) << file;
  }
  test::Warnings quiet;
  EXPECT_TRUE(run_with(quiet) == want);
  EXPECT_TRUE(quiet.lines.empty());
}

TEST(FrozenLayers, AFullDiskEndsTheKeepingAndNotTheRun) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const UpperOutcome want = outcome_of(upper_run({}));
  test::SftRun run = upper_run({}, scratch / "cache");
  test::Warnings log;
  int writes = 0;
  const base::WriteFault full = [&](const std::string& path, size_t) {
    if (path.find(".states") != std::string::npos && ++writes > 7)
      fail(Status::io, "{}: cannot be written: No space left on device", path);
  };
  run.setup.log = &log;
  run.setup.write_fault = &full;
  EXPECT_TRUE(outcome_of(std::move(run)) == want);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_NE(log.lines[0].find("No space left on device"), std::string::npos);
}

TEST(FrozenLayers, OneDirectoryIsOfOneModel) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string cache = scratch / "cache";
  const auto begin = [&](const std::string& part, const test::Settings& settings = {}) {
    test::SftRun run = upper_run(settings, cache);
    run.setup.source = {part.empty() ? "models/first" : "models/second"};
    add_upper(run);
    for (tensor::Parameter* p : run.model().parameters()) {
      if (!part.empty() && p->name.find(part) != std::string::npos) p->write()->add_(0.5);
    }
    Trainer& trainer = run.start();
    trainer.step();
  };
  begin("");
  begin("layers.1.mlp.up_proj");  // which the states do not depend on
  const auto [status, message] = test::error_of([&] { begin("layers.0.mlp.up_proj"); });
  EXPECT_EQ(status, Status::invalid_config);
  EXPECT_NE(message.find(cache + " holds states of models/first with weights: "), std::string::npos)
      << message;
  EXPECT_NE(message.find("models/second"), std::string::npos) << message;
  EXPECT_NE(test::error_of([&] {
              begin("", {{"bf16", "true"}});
            }).second.find("with products: Float"),
            std::string::npos);
  base::write_file(cache + "/frozen_layers.json", "{");
  const auto [unread, why] = test::error_of([&] { begin(""); });
  EXPECT_EQ(unread, Status::format);
  EXPECT_NE(why.find(cache + "/frozen_layers.json"), std::string::npos) << why;
}

TEST(FrozenLayers, WhereNothingCanBeKept) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const auto error = [&](const char* adapter, const std::string& directory) {
    return test::error_of([&] {
      test::SftRun run = upper_run({}, directory);
      add_upper(run, adapter);
      run.start();
    });
  };
  for (
      const char* below :
      {R"({"r": 4, "target_modules": ["q_proj"]})",
       R"({"r": 4, "target_modules": ["q_proj"], "layers_to_transform": [0]})",
       R"({"r": 4, "target_modules": ["q_proj"], "layers_to_transform": [1], "bias": "all"})",
       R"({"r": 4, "target_modules": ["q_proj"], "layers_to_transform": [1], "modules_to_save": ["embed_tokens"]})"}) {
    const auto [status, message] = error(below, scratch / "cache");
    EXPECT_EQ(status, Status::invalid_config) << below;
    EXPECT_NE(message.find("no frozen layer lies below"), std::string::npos) << below << message;
  }
  EXPECT_FALSE(base::file_exists(scratch / "cache"));
  const auto [status, message] = error(kUpper, "/proc/trl-cache");  // a disk with no room
  EXPECT_EQ(status, Status::io);
  EXPECT_NE(message.find("tokens x 64 x 4 bytes"), std::string::npos) << message;
}

TEST(FrozenLayers, RefusedWithDropoutBelow) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string from = test::golden_path("models/qwen2");
  fs::copy(from, scratch / "model", fs::copy_options::recursive);
  base::Json config = base::read_json_file(scratch / "model/config.json");
  config["attention_dropout"] = 0.25;
  base::write_file(scratch / "model/config.json", config.dump());
  const std::string cache = scratch / "cache";
  test::SftRun run(test::tiny_config({{"use_peft", "true"}, {"cache_frozen_layers", cache.c_str()}}),
                   scratch / "model", test::golden_path("data/datasets/train_lm.jsonl"), {0, 15});
  add_upper(run);
  const auto [status, message] = test::error_of([&] { run.start(); });
  EXPECT_EQ(status, Status::invalid_config);
  EXPECT_NE(message.find("attention_dropout: 0.25"), std::string::npos) << message;
}

constexpr const char* kKilledCache = "TRL_TEST_FROZEN_CACHE";
constexpr const char* kKilledAt = "TRL_TEST_FROZEN_KILLED_AT";

// Run by the other test, in a process of its own, which dies at a write.
TEST(FrozenLayers, DISABLED_child) {
  const std::string cache = std::getenv(kKilledCache), output = cache + "-output";
  test::SftRun run = upper_run({{"output_dir", output.c_str()}}, cache);
  int left = std::atoi(std::getenv(kKilledAt));
  const base::WriteFault die = [&](const std::string& path, size_t) {
    if (path.find(std::getenv(kKilledCache)) == 0 && --left == 0) std::raise(SIGKILL);
  };
  run.setup.write_fault = &die;
  outcome_of(std::move(run));
}

TEST(FrozenLayers, AKilledRunLeavesOnlyWholeFiles) {
  TRL_NEED_TINY_RUN();
  const UpperOutcome want = outcome_of(upper_run({}));
  const test::Scratch scratch;
  for (const char* at : {"1", "4", "9", "14"}) {
    const std::string cache = scratch / at, temporary = cache + "-temporary";
    fs::create_directories(temporary);
    const pid_t child = fork();
    if (child == 0) {
      setenv(kKilledCache, cache.c_str(), 1);
      setenv(kKilledAt, at, 1);
      setenv("TMPDIR", temporary.c_str(), 1);
      if (freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
      execl("/proc/self/exe", "train_test", "--gtest_also_run_disabled_tests",
            "--gtest_filter=FrozenLayers.DISABLED_child", nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    EXPECT_TRUE(fs::is_empty(temporary));
    test::SftRun run = upper_run({}, cache);
    test::Warnings log;
    run.setup.log = &log;
    EXPECT_TRUE(outcome_of(std::move(run)) == want);
    EXPECT_TRUE(log.lines.empty());
  }
}

}  // namespace
}  // namespace trl::train
