// max_tokens_per_pass: runs whose micro-batches go through the model in parts are the runs in which they go
// whole, up to the rounding of sums.
#include "config/lora_config.h"
#include "kernels/reference.h"
#include "support/error_of.h"
#include "train/family_model.h"

namespace trl::train::parts_run_test {
namespace {

using base::MemoryKind;
using test::joined;
using test::Settings;
using test::value;

std::string text_of(const Settings& settings) {
  std::string text;
  for (const auto& [key, setting] : settings) text += fmt::format("{}: {} ", key, setting);
  return text;
}

test::SftRun run_of(const Settings& settings, const std::string& model) {
  return test::SftRun(test::tiny_config(joined({{"max_length", "40"}}, settings)), model,
                      test::golden_path("data/datasets/train_lm.jsonl"), {0, 15}, test::Rows{0, 15});
}

Trainer& start_moved_adapter(test::SftRun& run, const char* text) {
  const config::LoraConfig config =
      config::read_lora_config(base::parse_json(text, "test"), "test", Status::format);
  model::Adapter& adapter = run.model().adapters().add("default", config, at::kFloat);
  adapter.start(7);
  for (tensor::Parameter* p : adapter.parameters())
    if (p->name.find("lora_B") != std::string::npos) p->write()->fill_(0.01);
  run.model().train_only(adapter);
  return run.start();
}

struct Step {
  std::map<std::string, at::Tensor> gradients;  // when they were complete
  std::map<std::string, int> completed;         // how often
  telemetry::Record metrics;
};

Step first_step(const Settings& settings, const std::string& model, const char* adapter = nullptr) {
  test::SftRun run = run_of(settings, model);
  Trainer& trainer = adapter != nullptr ? start_moved_adapter(run, adapter) : run.start();
  Step step;
  for (tensor::Parameter* p : run.model().all_parameters()) {
    if (!p->has_gradient()) continue;
    p->on_complete([&step, p] {
      ++step.completed[p->name];
      step.gradients[p->name] = p->gradient().to(at::kFloat);
    });
  }
  EXPECT_TRUE(trainer.step());
  step.metrics = trainer.metrics();
  return step;
}

// relative: of gradients, to the largest of their tensor; of metrics, a tenth of it.
void expect_near(const Step& got, const Step& want, double relative) {
  for (const char* name : {"loss", "entropy", "mean_token_accuracy", "grad_norm"}) {
    const double exact = value(want.metrics, name);
    EXPECT_NEAR(value(got.metrics, name), exact, 0.1 * relative * std::abs(exact)) << name;
  }
  for (const char* name : {"num_tokens", "learning_rate", "epoch", "step"})
    EXPECT_EQ(value(got.metrics, name), value(want.metrics, name)) << name;
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (const auto& [name, exact] : want.gradients) {
    EXPECT_EQ(got.completed.at(name), want.completed.at(name)) << name;
    const double largest = exact.abs().max().item<double>();
    EXPECT_LE((got.gradients.at(name) - exact).abs().max().item<double>(), relative * largest + 1e-9) << name;
  }
}

struct Kind {
  Settings settings;
  const char* tokens = "48";  // max_tokens_per_pass; 1: each document by itself
  double relative = 2e-5;
  std::string model = "models/qwen2";
  const char* adapter = nullptr;
};

void expect_near_to_whole(const std::string& model, const Kind& kind) {
  SCOPED_TRACE(kind.model + " " + text_of(kind.settings) + kind.tokens);
  expect_near(first_step(joined(kind.settings, {{"max_tokens_per_pass", kind.tokens}}), model, kind.adapter),
              first_step(kind.settings, model, kind.adapter), kind.relative);
}

void expect_near_to_whole(const Kind& kind) { expect_near_to_whole(test::golden_path(kind.model), kind); }

TEST(PartsRun, LearnsWhatTheWholeBatchLearns) {
  TRL_NEED_TINY_RUN();
  TRL_NEED_GOLDEN("models/llama3");
  for (const Kind& kind :
       std::vector<Kind>{{{{"label_smoothing_factor", "0.1"}, {"neftune_noise_alpha", "5"}}},
                         {{{"gradient_accumulation_steps", "3"}}, "1"},
                         {{{"packing", "true"},
                           {"max_length", "64"},
                           {"loss_type", "dft"},
                           {"recompute", "layers"},
                           {"gradient_checkpointing", "true"}}},
                         {{{"padding_free", "true"},
                           {"max_length", "null"},
                           {"fused_kernels", "off"},
                           {"neftune_noise_alpha", "5"}}},
                         {{{"packing", "true"}, {"packing_strategy", "wrapped"}, {"max_length", "48"}},
                          "48",
                          2e-5,
                          "models/llama3"}})  // whose head is not tied
    expect_near_to_whole(kind);
}

// Products and gradients in bfloat16 are rounded, a little otherwise for another number of rows.
TEST(PartsRun, LearnsTheSameInBfloat16) {
  TRL_NEED_TINY_RUN();
  for (const Kind& kind :
       std::vector<Kind>{{{{"gradient_dtype", "bfloat16"}}, "1", 5e-3},
                         {{{"bf16", "true"}, {"gradient_checkpointing", "true"}}, "48", 1e-2},
                         {{{"dtype", "bfloat16"}, {"gradient_accumulation_steps", "2"}}, "48", 1e-2}})
    expect_near_to_whole(kind);
}

// What is left out at random is what the whole batch leaves out; and some rotary embeddings depend on the
// longest document of the whole.
TEST(PartsRun, LearnsTheSameInEveryFamily) {
  TRL_NEED_TINY_RUN();
  for (const char* family :
       {"gpt2_dropout", "gpt_neox_dropout", "qwen2_window_dropout", "llama_dynamic", "phi3_longrope"}) {
    const test::FamilyModel model(family);
    for (const char* kernels : {"auto", "off"})
      expect_near_to_whole(model.path(), {{{"fused_kernels", kernels}}, "1", 1e-4, family});
  }
}

TEST(PartsRun, LearnsTheSameInAdapters) {
  TRL_NEED_TINY_RUN();
  constexpr const char* kDropping =
      R"({"r": 4, "lora_alpha": 8, "lora_dropout": 0.3, "target_modules": "all-linear"})";
  constexpr const char* kDora =
      R"({"r": 4, "lora_dropout": 0.2, "use_dora": true, "target_modules": ["q_proj", "down_proj"]})";
  const auto expect = [](const char* adapter, const Settings& more) {
    expect_near_to_whole({joined({{"use_peft", "true"}}, more), "48", 1e-4, "models/qwen2", adapter});
  };
  expect(kDropping, {{"gradient_checkpointing", "true"}});
  expect(kDropping, {{"load_in_4bit", "true"}});
  expect(kDora, {{"fused_kernels", "off"}});
  expect(kDora, {{"load_in_8bit", "true"}});
}

struct Outcome {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
  int64_t activations = 0;  // bytes, at most
};
Outcome finished(test::SftRun& run, Trainer& trainer) {
  Outcome out;
  test::memory().reset_peak();
  while (trainer.step()) out.losses.push_back(value(trainer.metrics(), "loss"));
  out.activations = test::memory().peak(MemoryKind::activations);
  for (tensor::Parameter* p : run.model().all_parameters()) out.weights.push_back(p->read()->clone());
  return out;
}
Outcome outcome(const Settings& settings, const char* adapter = nullptr) {
  test::SftRun run = run_of(joined({{"max_steps", "2"}}, settings), test::golden_path("models/qwen2"));
  return finished(run, adapter != nullptr ? start_moved_adapter(run, adapter) : run.start());
}
void expect_same(const Outcome& got, const Outcome& want) {
  EXPECT_EQ(got.losses, want.losses);
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (size_t i = 0; i < got.weights.size(); ++i)
    EXPECT_TRUE(test::same_bits(got.weights[i], want.weights[i])) << i;
}

TEST(PartsRun, HasTheSameBitsInEveryForm) {
  TRL_NEED_TINY_RUN();
  const std::vector<Settings> ways = {
      {{"gradient_checkpointing", "true"}},
      {{"gradient_checkpointing", "true"}, {"recompute", "selective"}},
      {{"gradient_checkpointing", "true"}, {"recompute", "products"}},
      {{"activation_offloading", "true"}},
      {{"gradient_checkpointing", "true"}, {"gradient_checkpointing_kwargs", "{offload: true}"}}};
  for (const Settings& kind :
       std::vector<Settings>{{{"bf16", "true"}, {"neftune_noise_alpha", "5"}},
                             {{"dtype", "bfloat16"}, {"gradient_accumulation_steps", "2"}}}) {
    const Settings base = joined({{"max_tokens_per_pass", "48"}, {"offload_dir", TRL_BINARY_DIR}}, kind);
    const Outcome want = outcome(base);
    for (const Settings& way : ways) {
      SCOPED_TRACE(text_of(joined(kind, way)));
      expect_same(outcome(joined(base, way)), want);
    }
    const test::Threads one(1);
    expect_same(outcome(base), want);
  }
}

TEST(PartsRun, HasTheSameBitsOverFrozenStatesOnDisk) {
  TRL_NEED_TINY_RUN();
  constexpr const char* kUpper =
      R"({"r": 4, "lora_dropout": 0.2, "target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]})";
  const test::Scratch scratch;
  const std::string cache = scratch / "cache";
  const Settings base = {{"use_peft", "true"}, {"max_tokens_per_pass", "48"}};
  const Outcome want = outcome(base, kUpper);
  for (int time = 0; time < 2; ++time)
    expect_same(outcome(joined(base, {{"cache_frozen_layers", cache.c_str()}}), kUpper), want);
}

TEST(PartsRun, GoesOnToTheSameBitsAfterResuming) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string whole = scratch / "whole", rest = scratch / "rest";
  const test::FamilyModel model("gpt2_dropout");
  const auto run_in = [&](const std::string& directory) {
    return run_of({{"max_steps", "4"},
                   {"max_tokens_per_pass", "48"},
                   {"save_strategy", "steps"},
                   {"save_steps", "2"},
                   {"output_dir", directory.c_str()}},
                  model.path());
  };
  test::SftRun first = run_in(whole), second = run_in(rest);
  const Outcome want = finished(first, first.start());
  Trainer& resumed = second.start();
  resumed.resume(whole + "/checkpoint-2");
  Outcome got = finished(second, resumed);
  got.losses.insert(got.losses.begin(), want.losses.begin(), want.losses.begin() + 2);
  expect_same(got, want);
}

TEST(PartsRun, HoldsTheActivationsOfOnePart) {
  TRL_NEED_TINY_RUN();
  for (const char* checkpointing : {"false", "true"}) {
    const Settings base = {{"per_device_train_batch_size", "16"},
                           {"gradient_checkpointing", checkpointing},
                           {"pad_to_multiple_of", "40"}};
    const Outcome whole = outcome(base), parts = outcome(joined(base, {{"max_tokens_per_pass", "100"}}));
    EXPECT_LT(parts.activations, whole.activations / 3) << checkpointing;
    for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(parts.losses[i], whole.losses[i], 1e-5);
  }
}

TEST(PartsRun, EvaluatesInPartsToo) {
  TRL_NEED_TINY_RUN();
  const auto evaluated = [](const Settings& settings, int64_t* activations) {
    test::SftRun run =
        run_of(joined({{"per_device_eval_batch_size", "16"}}, settings), test::golden_path("models/qwen2"));
    Trainer& trainer = run.start();
    test::memory().reset_peak();
    const telemetry::Record record = trainer.evaluate();
    *activations = test::memory().peak(MemoryKind::activations);
    return record;
  };
  int64_t most = 0, fewer = 0;
  const telemetry::Record whole = evaluated({}, &most),
                          parts = evaluated({{"max_tokens_per_pass", "48"}}, &fewer);
  for (const char* name : {"eval_loss", "eval_entropy", "eval_mean_token_accuracy"}) {
    EXPECT_NEAR(value(parts, name), value(whole, name), 1e-5 * value(whole, name)) << name;
  }
  EXPECT_GT(value(whole, "eval_loss"), 0);
  EXPECT_LT(fewer, most / 2);
}

// Only the last part is not finite: the error names all rows of the micro-batch, what the others added is
// gone, and the run goes on as if nothing had been.
TEST(PartsRun, AnErrorInALaterPartIsOneOfTheMicroBatch) {
  TRL_NEED_TINY_RUN();
  TRL_NEED_GOLDEN("models/llama3");
  const Settings settings = {{"max_tokens_per_pass", "1"}, {"max_steps", "2"}};
  test::SftRun usual = run_of(settings, test::golden_path("models/llama3"));
  const Outcome want = finished(usual, usual.start());
  usual.stop();

  test::SftRun run = run_of(settings, test::golden_path("models/llama3"));
  engine::ErrorCapture error;
  const data::Batch* batch = nullptr;
  ASSERT_TRUE(error.check(run.train_stream().start_epoch(0, 0, {}, error)));
  ASSERT_TRUE(error.check(run.train_stream().next(&batch, error)));
  const data::Batch host = *batch;
  const auto last = host.input_ids.begin() + host.cu_seqlens[host.cu_seqlens.size() - 2];
  const auto alone = std::find_if(last, host.input_ids.end(), [&](int32_t id) {
    return std::find(host.input_ids.begin(), last, id) == last;
  });
  ASSERT_NE(alone, host.input_ids.end());
  Trainer& trainer = run.start();
  tensor::Parameter& embedding = *run.model().parameters().front();
  ASSERT_NE(embedding.name.find("embed_tokens"), std::string::npos);
  const at::Tensor kept = embedding.read()->select(0, *alone).clone();
  embedding.write()->select(0, *alone).fill_(std::nan(""));
  const auto [status, message] = test::error_of([&] { trainer.step(); });
  EXPECT_EQ(status, Status::invalid_argument);
  EXPECT_EQ(message,
            fmt::format("the loss of step 1 is nan (dataset rows 0, 1, 2, 3); the weights are as before the "
                        "step; {}[{}, 0] is nan: give a model whose weights are finite",
                        embedding.name, *alone));
  embedding.write()->select(0, *alone).copy_(kept);
  expect_same(finished(run, trainer), want);
}

TEST(PartsRun, RoutersWithALossRefuseIt) {
  TRL_NEED_TINY_RUN();
  const test::FamilyModel model("mixtral");
  const auto start = [&](const char* weight) {
    run_of({{"router_aux_loss_coef", weight}, {"max_tokens_per_pass", "48"}}, model.path()).start();
  };
  const auto [status, message] = test::error_of([&] { start("0.02"); });
  EXPECT_EQ(status, Status::invalid_config);
  EXPECT_EQ(
      message,
      "max_tokens_per_pass: 48 is refused, because the routers' loss of this model (mixtral) is of a whole "
      "micro-batch, which then cannot go through it in parts: leave it out, or give "
      "router_aux_loss_coef: 0 (no such loss)");
  expect_near_to_whole(model.path(), {{{"router_aux_loss_coef", "0"}}, "48", 1e-4, "mixtral"});
}

}  // namespace
}  // namespace trl::train::parts_run_test
