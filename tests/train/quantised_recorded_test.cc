// Models that bitsandbytes quantised, against what transformers, PEFT and TRL make of them: whole runs, and
// logits.
#include <ATen/core/grad_mode.h>

#include "config/lora_config.h"
#include "model/golden_batch.h"
#include "support/seeded_model.h"
#include "train/recorded_run.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

constexpr const char* kRuns = "quantization/runs.json";

at::Tensor logits_of(model::Model& model, const base::Json& ids) {
  const at::NoGradGuard guard;
  return model.logits(model.forward(test::forward_input({ids}), {}), at::kFloat);
}

// What is recorded of logits: every 37th column, and the sum of all.
at::Tensor recorded(const base::Json& json) {
  std::vector<at::Tensor> rows;
  for (const base::Json& row : json["columns"]) {
    const std::vector<double> values = row;
    rows.push_back(at::tensor(at::ArrayRef<double>(values)));
  }
  const std::vector<double> sums = json["sums"];
  return at::cat({at::stack(rows), at::tensor(at::ArrayRef<double>(sums)).unsqueeze(1) / 22}, 1)
      .to(at::kFloat);
}
at::Tensor of_those(const at::Tensor& logits) {
  const at::Tensor wide = logits.to(at::kDouble);
  return at::cat({wide.slice(1, 0, c10::nullopt, 37), wide.sum(1, true) / 22}, 1).to(at::kFloat);
}

void expect_run(const std::string& name, const base::Json& want, const base::Json& ids) {
  SCOPED_TRACE(name);
  const std::string path = "models/" + want["model"].get<std::string>();
  TRL_NEED_GOLDEN(path);
  config::Config config =
      test::tiny_config({{"learning_rate", "0.01"}, {"max_steps", "6"}, {"use_peft", "true"}});
  const base::Json& quantization = want["quantization"];
  config.set("load_in_4bit", "true");
  config.set("bnb_4bit_quant_type", quantization["bnb_4bit_quant_type"].get<std::string>());
  config.set("use_bnb_nested_quant",
             quantization.value("bnb_4bit_use_double_quant", false) ? "true" : "false");
  test::SftRun run(config, test::golden_path(path), test::golden_path("data/datasets/train_lm.jsonl"),
                   {0, 63});
  const at::Tensor before = of_those(logits_of(run.model(), ids));
  model::Adapter& adapter = run.model().adapters().add(
      "default", config::read_lora_config(want["lora"], "test", Status::format), at::kBFloat16);
  adapter.start(42);
  run.model().train_only(adapter);
  Trainer& trainer = run.start();
  while (trainer.step()) {
  }
  trainer.finish();
  const base::Json log =
      base::parse_json(telemetry::trainer_state_json(trainer.state()), "state")["log_history"];
  ASSERT_GE(log.size(), want["records"].size());
  for (size_t i = 0; i < want["records"].size(); ++i) {
    for (const auto& [key, value] : want["records"][i].items())
      EXPECT_TRUE(test::close(log[i][key], value, test::limits::record(key, 0.02)))
          << "record " << i << ", " << key << ": " << log[i][key] << " instead of " << value;
  }
  const at::Tensor after = recorded(want["logits"]), got = of_those(logits_of(run.model(), ids));
  EXPECT_LT((got - after).norm().item<double>(), 0.1 * (after - before).norm().item<double>());
}

TEST(QuantisedRecorded, RunsAreTrls) {
  TRL_NEED_GOLDEN("data/datasets/train_lm.jsonl");
  const base::Json& json = test::golden_json(kRuns);
  for (const auto& [name, run] : json["runs"].items()) expect_run(name, run, json["ids"]);
}

std::unique_ptr<model::Model> open_as(const std::string& path, config::WeightForm form) {
  return model::Model::open(path, "float32", nullptr, at::kCPU, model::Head::language, {form});
}

// LLM.int8's products round the activations to 8 bits too; here they are those of the weights' numbers.
TEST(QuantisedRecorded, Int8LogitsAreThoseOfTheWeights) {
  TRL_NEED_GOLDEN("models/qwen2");
  const base::Json& json = test::golden_json(kRuns);
  const auto model = open_as(test::golden_path("models/qwen2"), config::WeightForm::int8);
  const at::Tensor got = of_those(logits_of(*model, json["ids"]));
  EXPECT_LE(test::used_limit(got, recorded(json["int8"]["dequantised"]), test::limits::forward), 1);
  const at::Tensor theirs = recorded(json["int8"]["bitsandbytes"]);
  const double share = (got - theirs).norm().item<double>() / theirs.norm().item<double>();
  EXPECT_GT(share, 1e-4);
  EXPECT_LT(share, 2e-2);
}

TEST(QuantisedRecorded, LogitsOfGpt2AndOfExperts) {
  const base::Json& json = test::golden_json(kRuns);
  for (const auto& [name, key] : {std::pair{"gpt2", "gpt2"}, {"qwen3_moe", "experts"}}) {
    SCOPED_TRACE(name);
    const test::SeededModel seeded(name);
    const auto model = open_as(seeded.directory.path(), config::WeightForm::nf4);
    const at::Tensor got = of_those(logits_of(*model, json["ids_families"]));
    EXPECT_LE(test::used_limit(got, recorded(json[key]), test::limits::forward), 1);
  }
}

}  // namespace
}  // namespace trl::train
