// precompute_ref_log_probs: a run that asks the reference before the first step is the run that asks it in
// each, up to the rounding of what is kept; what was computed serves later runs.
#include <sys/stat.h>

#include <filesystem>

#include "config/lora_config.h"
#include "support/error_of.h"
#include "support/warnings.h"
#include "train/tiny_run.h"

namespace trl::train::precompute_test {
namespace {

using test::is_timing;
using test::joined;
using test::Settings;

std::string rows_of(const Settings& settings) {
  const bool pairs = std::string_view(settings.front().second) == "dpo";
  return test::golden_path(pairs ? "data/datasets/train_pref.jsonl" : "data/datasets/train_unpaired.jsonl");
}

test::SftRun run_of(const Settings& settings, test::Rows rows = {0, 15},
                    std::optional<test::Rows> eval_rows = {}) {
  const Settings all = joined({{"max_steps", "3"}}, settings);
  return {test::tiny_config(all), test::golden_path("models/qwen2"), rows_of(settings), rows, eval_rows};
}

using Records = std::vector<telemetry::Record>;

Records finish(Trainer& trainer) {
  while (trainer.step()) {
  }
  trainer.finish();
  return trainer.state().log_history;
}

// precomputed: the settings with precompute_ref_log_probs, into this directory.
Settings precomputed(const Settings& settings, const std::string& directory) {
  return joined(settings,
                {{"precompute_ref_log_probs", "true"}, {"ref_logprobs_cache_dir", directory.c_str()}});
}

void expect_near(const Records& got, const Records& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].entries().size(), want[i].entries().size());
    for (const telemetry::Entry& entry : want[i].entries()) {
      if (is_timing(entry.name)) continue;
      // before the first update both rewards are 0, and rounding says which one is the larger
      if (i == 0 && entry.name == "rewards/accuracies") continue;
      EXPECT_NEAR(test::value(got[i], entry.name), entry.value, 2e-5 + 1e-4 * std::abs(entry.value))
          << "record " << i << ", " << entry.name;
    }
  }
}

std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> files;
  for (const std::string& name : base::list_directory(directory))
    if (name.starts_with("ref-logprobs-")) files.push_back(base::join_path(directory, name));
  return files;
}

// What a file is, and not only what it is called.
std::vector<ino_t> inodes(const std::vector<std::string>& files) {
  std::vector<ino_t> all;
  for (const std::string& file : files) {
    struct stat about {};
    EXPECT_EQ(::stat(file.c_str(), &about), 0);
    all.push_back(about.st_ino);
  }
  return all;
}

TEST(Precompute, IsTheRunThatAsksEachTime) {
  TRL_NEED_GOLDEN("models/qwen2");
  const std::vector<Settings> cases = {
      {{"method", "dpo"}},
      {{"method", "dpo"}, {"fused_kernels", "off"}},
      {{"method", "dpo"}, {"ld_alpha", "0.5"}},
      {{"method", "dpo"}, {"use_weighting", "true"}, {"loss_type", "[sigmoid, bco_pair]"}},
      {{"method", "dpo"}, {"max_tokens_per_pass", "60"}, {"precompute_ref_batch_size", "3"}},
      {{"method", "dpo"}, {"precompute_ref_batch_size", "64"}, {"max_length", "20"}},
      {{"method", "kto"}},
      {{"method", "kto"}, {"loss_type", "apo_zero_unpaired"}, {"train_sampling_strategy", "random"}},
  };
  for (const Settings& settings : cases) {
    std::string name;
    for (const auto& [key, value] : settings) name += fmt::format("{}: {} ", key, value);
    SCOPED_TRACE(name);
    const test::Scratch cache;
    auto plain = run_of(settings);
    Settings early = precomputed(settings, cache.path());
    auto recorded = run_of(early);
    expect_near(finish(recorded.start()), finish(plain.start()));
    EXPECT_EQ(files_in(cache.path()).size(), 1u);
  }
}

// Of each epoch drop_last leaves other rows out.
TEST(Precompute, HoldsRowsThatTheFirstEpochLeavesOut) {
  TRL_NEED_GOLDEN("models/qwen2");
  const Settings settings = {{"method", "dpo"},
                             {"train_sampling_strategy", "random"},
                             {"dataloader_drop_last", "true"},
                             {"max_steps", "8"}};
  const test::Scratch cache;
  auto plain = run_of(settings, {0, 9});
  const Settings early = precomputed(settings, cache.path());
  auto recorded = run_of(early, {0, 9});
  expect_near(finish(recorded.start()), finish(plain.start()));
  EXPECT_EQ(recorded.train_stream().order, plain.train_stream().order);
}

TEST(Precompute, ServesLaterRunsAndEvaluationRows) {
  TRL_NEED_GOLDEN("models/qwen2");
  for (const char* method : {"dpo", "kto"}) {
    SCOPED_TRACE(method);
    const test::Scratch cache;
    const Settings usual = {{"method", method}, {"eval_strategy", "steps"}, {"eval_steps", "2"}};
    const Settings settings = precomputed(usual, cache.path());
    auto plain = run_of(usual, {0, 15}, test::Rows{16, 23});
    auto first = run_of(settings, {0, 15}, test::Rows{16, 23});
    const Records records = finish(first.start());
    expect_near(records, finish(plain.start()));
    const std::vector<std::string> files = files_in(cache.path());
    ASSERT_EQ(files.size(), 2u);
    const std::vector<ino_t> before = inodes(files);
    auto second = run_of(settings, {0, 15}, test::Rows{16, 23});
    Trainer& trainer = second.start();
    EXPECT_EQ(files_in(cache.path()), files);
    EXPECT_EQ(inodes(files), before);
    const Records again = finish(trainer);
    ASSERT_EQ(again.size(), records.size());
    for (size_t i = 0; i < records.size(); ++i)
      for (const telemetry::Entry& entry : records[i].entries()) {
        if (is_timing(entry.name)) continue;
        EXPECT_EQ(test::value(again[i], entry.name), entry.value) << entry.name;
      }
  }
}

TEST(Precompute, IsKeyedByWhatItIsOf) {
  TRL_NEED_GOLDEN("models/qwen2");
  const test::Scratch cache;
  const auto count = [&](const Settings& settings, test::Rows rows = {0, 7}) {
    run_of(precomputed(settings, cache.path()), rows).start();
    return files_in(cache.path()).size();
  };
  EXPECT_EQ(count({{"method", "dpo"}}), 1u);
  EXPECT_EQ(count({{"method", "dpo"}, {"beta", "0.5"}, {"loss_type", "ipo"}, {"learning_rate", "1e-5"}}), 1u);
  EXPECT_EQ(count({{"method", "dpo"}, {"train_sampling_strategy", "random"}}), 1u);
  EXPECT_EQ(count({{"method", "dpo"}, {"max_length", "20"}}), 2u);  // other tokens
  EXPECT_EQ(count({{"method", "dpo"}}, {1, 8}), 3u);
  EXPECT_EQ(count({{"method", "dpo"}, {"bf16", "true"}}), 4u);
  const std::string other = test::golden_path("models/qwen2_bf16");
  EXPECT_EQ(count({{"method", "dpo"}, {"ref_model_name_or_path", other.c_str()}}), 5u);
  const std::string same = test::golden_path("models/qwen2");
  EXPECT_EQ(count({{"method", "dpo"}, {"ref_model_name_or_path", same.c_str()}}), 5u);
  EXPECT_EQ(count({{"method", "kto"}}), 6u);
}

TEST(Precompute, ADamagedFileIsMadeAnew) {
  TRL_NEED_GOLDEN("models/qwen2");
  const test::Scratch cache;
  const Settings settings = precomputed({{"method", "dpo"}}, cache.path());
  auto first = run_of(settings);
  const Records records = finish(first.start());
  const std::string file = files_in(cache.path()).at(0), whole = base::read_file(file);
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  for (const std::string& bytes :
       {flipped, whole.substr(0, whole.size() - 4), std::string("TRL"), whole + "x"}) {
    base::write_file(file, bytes);
    test::Warnings log;
    auto again = run_of(settings);
    again.setup.log = &log;
    expect_near(finish(again.start()), records);
    ASSERT_EQ(log.lines.size(), 1u);
    EXPECT_NE(log.lines[0].find(file), std::string::npos) << log.lines[0];
    EXPECT_EQ(base::read_file(file), whole);
  }
}

TEST(Precompute, AnAdapterIsOffOrAsItBegan) {
  TRL_NEED_GOLDEN("models/qwen2");
  const config::LoraConfig lora = config::read_lora_config(
      base::parse_json(R"({"r": 4, "target_modules": ["q_proj", "down_proj"]})", "test"), "test",
      Status::format);
  const auto start = [&](test::SftRun& run) -> Trainer& {
    model::Adapter& adapter = run.model().adapters().add("default", lora, at::kFloat);
    adapter.start(7);
    for (tensor::Parameter* p : adapter.parameters())
      if (p->name.find("lora_B") != std::string::npos) p->write()->fill_(0.02);
    run.model().train_only(adapter);
    return run.start();
  };
  const test::Scratch cache;
  for (const bool continues : {false, true}) {
    SCOPED_TRACE(continues);
    Settings settings = {{"method", "dpo"}};
    if (continues) settings = joined(settings, {{"use_peft", "true"}, {"adapter_name_or_path", "begun"}});
    auto plain = run_of(settings), recorded = run_of(precomputed(settings, cache.path()));
    expect_near(finish(start(recorded)), finish(start(plain)));
    EXPECT_EQ(files_in(cache.path()).size(), continues ? 2u : 1u);
  }
}

TEST(Precompute, AResumedRunReadsWhatTheFirstOneWrote) {
  TRL_NEED_GOLDEN("models/qwen2");
  const test::Scratch output;
  const Settings settings = {{"method", "kto"},          {"precompute_ref_log_probs", "true"},
                             {"save_strategy", "steps"}, {"save_steps", "2"},
                             {"max_steps", "4"},         {"output_dir", output.path().c_str()}};
  std::vector<at::Tensor> weights;
  {
    auto whole = run_of(settings);
    finish(whole.start());
    weights = whole.weights();
  }
  const std::vector<std::string> files = files_in(output.path());
  ASSERT_EQ(files.size(), 1u);
  const std::vector<ino_t> before = inodes(files);
  auto resumed = run_of(settings);
  Trainer& trainer = resumed.start();
  trainer.resume(output / "checkpoint-2");
  finish(trainer);
  EXPECT_EQ(inodes(files_in(output.path())), before);
  const std::vector<at::Tensor> after = resumed.weights();
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(at::equal(weights[i], after[i])) << i;
}

TEST(Reference, HasTheSameVocabulary) {
  TRL_NEED_GOLDEN("models/llama");
  const std::string other = test::golden_path("models/llama");
  for (const char* early : {"false", "true"}) {
    auto run = run_of(
        {{"method", "kto"}, {"ref_model_name_or_path", other.c_str()}, {"precompute_ref_log_probs", early}});
    const auto [status, message] = test::error_of([&] { run.start(); });
    EXPECT_EQ(status, Status::invalid_config);
    EXPECT_NE(message.find("a vocabulary of 448 tokens"), std::string::npos) << message;
    EXPECT_NE(message.find("512"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace trl::train::precompute_test
