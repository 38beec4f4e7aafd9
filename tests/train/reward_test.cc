// Reward models that are made of language models: the head that they get, whole runs and what is saved,
// against TRL's (tests/parity/record_reward.py).
#include <filesystem>

#include "adapter/config_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/save.h"
#include "config/lora_config.h"
#include "io/safetensors.h"
#include "io/temporary_file.h"
#include "kernels/elementwise/pick_rows.h"
#include "support/error_of.h"
#include "support/weights.h"
#include "train/recorded_run.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using base::Json;
using test::TemporaryDirectory;

constexpr const char* kCreated = "reward/created.json";

config::Config reward_config(const test::Settings& settings) {
  config::Config config;
  config.set("method", "reward");
  const config::Config usual = test::tiny_config({});
  for (const auto& [key, value] : usual.values()) config.set(key, value);
  for (const auto& [key, value] : settings) config.set(key, value);
  return config;
}

test::SftRun reward_run(const config::Config& config, const std::string& model, const std::string& rows,
                        std::optional<test::Rows> eval_rows = {}) {
  return test::SftRun(config, test::golden_path("models/" + model),
                      test::golden_path("data/datasets/" + rows), {0, 63}, eval_rows);
}

config::Config config_of_case(const Json& want) {
  config::Config config = reward_config({{"max_steps", "6"}});
  for (const auto& [key, value] : want["args"].items()) {
    if (key == "model_init_kwargs") {
      config.set("dtype", value["dtype"].get<std::string>());
    } else {
      config.set(key, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return config;
}

void expect_values(const at::Tensor& got, const Json& want, double limit) {
  ASSERT_EQ(got.numel(), std::ssize(want));
  const at::Tensor values = got.to(at::kDouble).flatten();
  for (int64_t i = 0; i < values.numel(); ++i)
    EXPECT_NEAR(values[i].item<double>(), want[static_cast<size_t>(i)].get<double>(), limit) << i;
}

// For its whole length.
tensor::Parameter* trained_head(model::Model& model) {
  if (const model::Adapter* const adapter = model.adapters().trained()) {
    for (tensor::Parameter* p : adapter->parameters())
      if (p->name.ends_with("score.weight")) return p;
    return nullptr;
  }
  return &model.head();
}

void add_adapter(test::SftRun& run, const Json& want) {
  const config::LoraConfig lora = config::read_lora_config(want["lora"], "test", Status::format);
  model::Adapter& adapter = run.model().adapters().add("default", lora, at::kFloat);
  adapter.start(run.model().generator());
  run.model().train_only(adapter);
  for (const auto& [name, first] : want["begin"]["factors"].items()) {
    for (tensor::Parameter* p : adapter.parameters())
      if (p->name == name) expect_values(p->read()->select(0, 0).narrow(0, 0, 4), first, 1e-9);
  }
}

// pad_token_id of the tokenizer, as capi/ hands it over.
void align(test::SftRun& run, const Json& want) {
  if (want["saved"].contains("pad_token_id"))
    run.model().align_special_tokens({.pad = want["saved"]["pad_token_id"].get<int32_t>()});
}

void expect_trls(const Json& want, const char* fused_kernels) {
  config::Config config = config_of_case(want);
  config.set("fused_kernels", fused_kernels);
  test::SftRun run = reward_run(config, want["model"], want["dataset"]);
  align(run, want);
  const bool narrow = want["args"]["bf16"].get<bool>();
  EXPECT_EQ(run.model().config().labels, 1);
  EXPECT_TRUE(run.model().config().new_head);
  expect_values(*run.model().head().read(), want["head"], 1e-8);
  if (want.contains("lora")) add_adapter(run, want);
  Trainer& trainer = run.start();
  while (trainer.step()) {
  }
  trainer.finish();
  const Json state = base::parse_json(telemetry::trainer_state_json(trainer.state()), "state");
  const Json golden = {{"log_history", want["records"]}, {"relative_tolerance", narrow ? 0.02 : 1e-3}};
  if (narrow) {
    // Scores have eight bits, and those from 0.25 to 0.5 a unit of 2^-9: each is at most four of these apart,
    // as long as weights that have no more bits themselves are those of the beginning. (Processors round the
    // products of bfloat16 in different places: up to two units on one with AVX512-BF16, three on one
    // without.)
    const size_t compared = run.model().dtype() == at::kBFloat16 ? 1 : want["records"].size() - 1;
    for (size_t i = 0; i < compared; ++i) {
      for (const char* name : {"loss", "min_reward", "mean_reward", "max_reward", "margin"}) {
        EXPECT_NEAR(state["log_history"][i][name].get<double>(), want["records"][i][name].get<double>(), 8e-3)
            << i << " " << name;
      }
    }
  } else {
    test::expect_records(golden, state["log_history"]);
    tensor::Parameter* const head = trained_head(run.model());
    ASSERT_NE(head, nullptr);
    const std::vector<float> begin = want["head"], end = want["final_head"];
    test::expect_near_by_change(test::values_of(*head->read()), begin, end, 1e-3, head->name);
  }
}

class RewardCreated : public testing::TestWithParam<const char*> {};
TEST_P(RewardCreated, RunsAreTrls) {
  TRL_NEED_GOLDEN(kCreated);
  const Json& want = test::golden_json(kCreated)[GetParam()];
  for (const char* fused_kernels : {"on", "off"}) {
    SCOPED_TRACE(fused_kernels);
    expect_trls(want, fused_kernels);
  }
}
INSTANTIATE_TEST_SUITE_P(Recorded, RewardCreated,
                         testing::Values("plain", "lora", "pad_is_eos", "autocast", "bfloat16"),
                         [](const auto& param) { return param.param; });

// A causal model's own head is neither there nor saved; what is saved is a classifier, and opens as one.
TEST(Reward, SavedModelsOpenAgain) {
  TRL_NEED_GOLDEN(kCreated);
  const Json& want = test::golden_json(kCreated)["plain"];
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  test::SftRun run = reward_run(reward_config({{"max_steps", "2"}}), "qwen2", "train_pref.jsonl");
  align(run, want);
  Trainer& trainer = run.start();
  while (trainer.step()) {
  }
  trainer.save_model(directory.file("model"));
  const io::Safetensors file(directory.file("model/model.safetensors"));
  ASSERT_EQ(file.tensors().size(), want["tensors"].size());
  for (const auto& [name, shape] : want["tensors"].items())
    EXPECT_EQ(Json(file.tensors().at(name).shape), shape) << name;
  const Json config = base::read_json_file(directory.file("model/config.json"));
  for (const char* key : {"architectures", "id2label", "label2id", "pad_token_id", "eos_token_id"})
    EXPECT_EQ(config[key], want["saved"][key]) << key;
  EXPECT_FALSE(config.contains("num_labels"));
  EXPECT_FALSE(base::file_exists(directory.file("model/generation_config.json")));

  const auto again =
      model::Model::open(directory.file("model"), "float32", nullptr, at::kCPU, model::Head::reward);
  EXPECT_FALSE(again->config().new_head);
  EXPECT_TRUE(again->head().read()->equal(*run.model().head().read()));
}

// The trained head lies in the adapter's file under PEFT's names, and merged into a classifier.
TEST(Reward, SavedAdaptersHaveTheHead) {
  TRL_NEED_GOLDEN(kCreated);
  const Json& want = test::golden_json(kCreated)["lora"];
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  test::SftRun run = reward_run(config_of_case(want), "qwen2", "train_pref.jsonl");
  add_adapter(run, want);
  Trainer& trainer = run.start();
  ASSERT_TRUE(trainer.step());
  const at::Tensor head = trained_head(run.model())->read()->clone();
  trainer.save_model(directory.file("adapter"));
  const io::Safetensors file(directory.file("adapter/adapter_model.safetensors"));
  ASSERT_EQ(file.tensors().size(), want["tensors"].size());
  for (const auto& [name, shape] : want["tensors"].items())
    EXPECT_EQ(Json(file.tensors().at(name).shape), shape) << name;
  const Json config = base::read_json_file(directory.file("adapter/adapter_config.json"));
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  EXPECT_EQ(config["modules_to_save"], want["saved"]["modules_to_save"]);

  trainer.save_merged(directory.file("merged"));
  const auto merged =
      model::Model::open(directory.file("merged"), "float32", nullptr, at::kCPU, model::Head::reward);
  EXPECT_FALSE(merged->config().new_head);
  EXPECT_TRUE(merged->head().read()->equal(head));
}

TEST(Reward, RunsResume) {
  TRL_NEED_GOLDEN(kCreated);
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  const auto run_in = [&](const std::string& output) {
    const std::string path = directory.file(output);
    return reward_run(reward_config({{"max_steps", "5"},
                                     {"save_strategy", "steps"},
                                     {"save_steps", "2"},
                                     {"gradient_accumulation_steps", "2"},
                                     {"center_rewards_coefficient", "0.1"},
                                     {"train_sampling_strategy", "random"},
                                     {"output_dir", path.c_str()}}),
                      "qwen2", "train_margin.jsonl");
  };
  const auto finish = [](test::SftRun& run, Trainer& trainer) {
    while (trainer.step()) {
    }
    return run.weights();
  };
  test::SftRun whole = run_in("whole"), again = run_in("again");
  const std::vector<at::Tensor> want = finish(whole, whole.start());
  Trainer& resumed = again.start();
  resumed.resume(directory.file("whole/checkpoint-2"));
  const std::vector<at::Tensor> got = finish(again, resumed);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << i;
}

// Parts of a micro-batch: what a score's gradient is follows from the other answer's, which is in another
// part.
TEST(Reward, LearnsInPartsWhatTheWholeBatchLearns) {
  TRL_NEED_GOLDEN(kCreated);
  const auto run_with = [](const char* tokens) {
    return reward_run(reward_config({{"max_steps", "3"},
                                     {"max_tokens_per_pass", tokens},
                                     {"center_rewards_coefficient", "0.1"},
                                     {"gradient_checkpointing", "true"}}),
                      "qwen2", "train_margin.jsonl", test::Rows{0, 15});
  };
  std::optional<telemetry::Record> whole;
  for (const char* tokens : {"100000", "48", "1"}) {
    SCOPED_TRACE(tokens);
    test::SftRun run = run_with(tokens);
    Trainer& trainer = run.start();
    while (trainer.step()) {
    }
    const telemetry::Record last = trainer.metrics();
    trainer.evaluate();
    if (!whole) whole = last;
    for (const char* name : {"loss", "grad_norm", "min_reward", "mean_reward", "max_reward", "accuracy",
                             "margin", "num_tokens"}) {
      const double want = test::value(*whole, name);
      EXPECT_NEAR(test::value(last, name), want, 1e-5 * std::abs(want) + 1e-7) << name;
    }
  }
}

TEST(Reward, OfTwoLabelsIsRefused) {
  TRL_NEED_GOLDEN("models/qwen2");
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  const std::string path = directory.file("model");
  std::filesystem::copy(test::golden_path("models/qwen2"), path);
  std::filesystem::permissions(path + "/config.json", std::filesystem::perms::owner_all);
  Json config = base::read_json_file(path + "/config.json");
  const auto error_with = [&](const Json& more) {
    Json changed = config;
    changed.update(more);
    base::replace_file(path + "/config.json", changed.dump());
    return test::error_of(
        [&] { model::Model::open(path, "float32", nullptr, at::kCPU, model::Head::reward); });
  };
  const Json classifier = {{"architectures", {"Qwen2ForSequenceClassification"}}};
  Json two = classifier, one = classifier;
  two["num_labels"] = 2;
  one["num_labels"] = 1;
  EXPECT_NE(error_with(two).second.find("the model has 2 labels"), std::string::npos)
      << error_with(two).second;
  // A classifier whose head is missing is not given another.
  EXPECT_NE(error_with(one).second.find("score.weight"), std::string::npos) << error_with(one).second;
  EXPECT_EQ(error_with({{"num_labels", 2}}).second, "");  // of a language model, where it means nothing
}

// By the rule of transformers: the last token that is not padding, which an end token may be.
TEST(Reward, ScoresTheLastTokenThatIsNotPadding) {
  const kernels::Segments rows{{0, 3, 6, 8}, 3};
  const int32_t ids[] = {5, 6, 9, 9, 7, 8, 9, 9};
  EXPECT_EQ(last_rows(ids, rows, {}, 9), (std::vector<int32_t>{1, 5, 6}));
  EXPECT_EQ(last_rows(ids, rows, {}, -1), (std::vector<int32_t>{2, 5, 7}));
  // Two answers to one prompt, the first of padding alone.
  const kernels::Segments tree{{0, 3, 5, 6}, 3, {-1, 0, 0}};
  const int32_t shared[] = {5, 6, 9, 9, 9, 7};
  const std::vector<int32_t> ends = {1, 2};
  EXPECT_EQ(last_rows(shared, tree, ends, 9), (std::vector<int32_t>{1, 5}));
}

TEST(PickRows, GivesGradientsBack) {
  const at::Tensor x = at::arange(12, at::kFloat).reshape({4, 3}).requires_grad_();
  const at::Tensor picked = kernels::pick_rows(x, {2, 0, 2});
  EXPECT_TRUE(picked.equal(x.detach().index_select(0, at::tensor({2, 0, 2}, at::kLong))));
  (picked * at::tensor({1.f, 2.f, 4.f}).unsqueeze(1)).sum().backward();
  EXPECT_TRUE(x.grad().equal(at::tensor({2.f, 0.f, 5.f, 0.f}).unsqueeze(1).expand({4, 3})));
}

}  // namespace
}  // namespace trl::train
