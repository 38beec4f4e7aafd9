// A rehearsed step takes what the step itself takes, kind by kind, and touches nothing.
#include "tensor/memory/rehearsal.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "config/lora_config.h"
#include "kernels/gemm/gemm_int8.h"
#include "memory/plan.h"
#include "train/family_model.h"

namespace trl::train::rehearsal_test {
namespace {

using base::MemoryKind;
using test::Settings;
using test::tiny_run;
// A disk, which the directory of temporary files may not be.
constexpr const char* kDisk = TRL_BINARY_DIR;

using Peaks = std::array<int64_t, base::kMemoryKinds + 1>;  // of each kind, and of all together

// Stored blocks are charged as workspace, so of that kind and of activations the sum of both counts.
constexpr MemoryKind kExact[] = {MemoryKind::weights, MemoryKind::gradients, MemoryKind::optimizer,
                                 MemoryKind::activations};

struct Case {
  Settings settings;
  const char* lora = nullptr;  // of an adapter that is trained
  std::string model = {};      // its directory; empty: the tiny qwen2
  // What may be on its way to the disk, or back, is a matter of time.
  int64_t on_the_way = 0;
  // How many rows an expert gets is in the numbers; they are rounded up by at most an eighth.
  double of_routing = 0;
  bool float32_head = false;  // cast_lm_head_to_fp32, which only GRPO's options have
};

test::SftRun opened(const Case& of) {
  Settings settings = of.settings;
  settings.emplace_back("max_steps", "1");
  settings.emplace_back("on_nonfinite", "continue");
  const bool evaluates = std::any_of(settings.begin(), settings.end(), [](const auto& setting) {
    return std::string_view(setting.first) == "eval_strategy";
  });
  return test::SftRun(test::tiny_config(settings),
                      of.model.empty() ? test::golden_path("models/qwen2") : of.model,
                      test::golden_path("data/datasets/train_lm.jsonl"), {0, 15},
                      evaluates ? std::optional(test::Rows{20, 30}) : std::nullopt);
}

Trainer& begun(test::SftRun& run, const Case& of) {
  run.setup.arguments.online.cast_lm_head_to_fp32 = of.float32_head;
  if (of.lora == nullptr) return run.start();
  const config::LoraConfig config =
      config::read_lora_config(base::parse_json(of.lora, "test"), "test", Status::format);
  model::Adapter& adapter = run.model().adapters().add("default", config, at::kFloat);
  adapter.start(7);
  run.model().train_only(adapter);
  return run.start();
}

Peaks rehearsed(const Case& of) {
  tensor::Rehearsal rehearsal;
  {
    test::SftRun run = opened(of);
    Trainer& trainer = begun(run, of);
    trainer.rehearse();
    if (run.setup.eval != nullptr) trainer.evaluate();
  }
  std::vector<memory::Holding> holdings;
  for (const tensor::Taken& taken : rehearsal.taken()) {
    if (taken.stage == tensor::kMappedPages) continue;
    holdings.push_back({std::string(base::memory_kind_name(taken.kind)), taken.bytes, taken.from, taken.to});
  }
  const memory::Plan plan = memory::plan(holdings, std::ssize(rehearsal.events()), 100);
  Peaks peaks{};
  for (int32_t kind = 0; kind < base::kMemoryKinds; ++kind) {
    for (const memory::Term& term : plan.terms) {
      if (term.name == base::memory_kind_name(static_cast<MemoryKind>(kind)))
        peaks[static_cast<size_t>(kind)] = term.most;
    }
  }
  peaks.back() = plan.peak;
  return peaks;
}

Peaks measured(const Case& of) {
  tensor::trim();
  test::memory().reset_peak();
  test::SftRun run = opened(of);
  EXPECT_TRUE(begun(run, of).step());
  Peaks peaks{};
  for (int32_t kind = 0; kind < base::kMemoryKinds; ++kind)
    peaks[static_cast<size_t>(kind)] = test::memory().peak(static_cast<MemoryKind>(kind));
  peaks.back() = test::memory().peak();
  return peaks;
}

void expect_as_rehearsed(const Case& of) {
  std::string name = of.lora != nullptr ? "LoRA " : "";
  for (const auto& [key, value] : of.settings) name += std::string(key) + ": " + value + " ";
  SCOPED_TRACE(name + of.model);
  const Peaks predicted = rehearsed(of), found = measured(of);
  for (const MemoryKind kind : kExact) {
    const auto all = static_cast<size_t>(kind);
    const double share = kind == MemoryKind::activations ? of.of_routing : 0;
    if (kind == MemoryKind::activations && of.on_the_way > 0) continue;
    EXPECT_NEAR(static_cast<double>(predicted[all]), static_cast<double>(found[all]),
                share * static_cast<double>(found[all]))
        << base::memory_kind_name(kind);
  }
  EXPECT_NEAR(
      static_cast<double>(predicted.back()), static_cast<double>(found.back()),
      (0.001 + of.of_routing) * static_cast<double>(found.back()) + static_cast<double>(of.on_the_way));
}

void expect_as_rehearsed(const std::vector<Case>& table) {
  for (const Case& of : table) expect_as_rehearsed(of);
}

constexpr const char* kLora = R"({"r": 8, "target_modules": "all-linear"})";
constexpr const char* kDora = R"({"r": 8, "target_modules": "all-linear", "use_dora": true})";
constexpr const char* kPissa = R"({"r": 8, "target_modules": "all-linear", "init_lora_weights": "pissa"})";
constexpr const char* kUpper =
    R"({"r": 4, "target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]})";

TEST(Rehearsal, TakesWhatTheStepTakes) {
  TRL_NEED_TINY_RUN();
  expect_as_rehearsed({
      {{}},
      {{{"bf16", "true"}}},
      {{{"dtype", "bfloat16"}, {"bf16", "true"}}},
      {{{"gradient_accumulation_steps", "3"}}},
      {{{"bf16", "true"}, {"gradient_accumulation_steps", "3"}}},
      {{{"per_device_train_batch_size", "1"}}},
      {{{"per_device_train_batch_size", "16"}}},
      {{{"max_grad_norm", "0"}}},
      {{{"label_smoothing_factor", "0.1"}}},
      {{{"loss_type", "dft"}}},
      {{{"neftune_noise_alpha", "5"}}},
      {{{"packing", "true"}, {"max_length", "64"}}},
      {{{"padding_free", "true"}, {"max_length", "null"}}},
      {{{"per_device_train_batch_size", "16"}, {"max_tokens_per_pass", "100"}}},
      {{{"max_tokens_per_pass", "48"}, {"bf16", "true"}, {"gradient_checkpointing", "true"}}},
      {{{"max_tokens_per_pass", "48"}, {"dtype", "bfloat16"}, {"gradient_accumulation_steps", "2"}}},
  });
}

TEST(Rehearsal, TakesWhatRecomputingTakes) {
  TRL_NEED_TINY_RUN();
  const char* const kAgain = "gradient_checkpointing";
  const char* const kHow = "gradient_checkpointing_kwargs";
  expect_as_rehearsed({
      {{{kAgain, "true"}}},
      {{{kAgain, "true"}, {"bf16", "true"}}},
      {{{kAgain, "true"}, {"per_device_train_batch_size", "16"}, {"bf16", "true"}}},
      {{{kAgain, "true"}, {"recompute", "products"}}},
      {{{kAgain, "true"}, {"recompute", "products"}, {"bf16", "true"}}},
      {{{kAgain, "true"}, {kHow, "{selective: true}"}}},
      {{{kAgain, "true"}, {kHow, "{selective: true}"}, {"bf16", "true"}}},
      {{{kAgain, "true"}, {kHow, "{every_n_layers: 2}"}}},
      {{{kAgain, "true"}, {kHow, "{offload: true}"}, {"offload_dir", kDisk}}, nullptr, {}, 1 << 20},
      {{{"activation_offloading", "true"}, {"offload_dir", kDisk}}, nullptr, {}, 4 << 20},
  });
}

TEST(Rehearsal, TakesWhatOptimizersTake) {
  TRL_NEED_TINY_RUN();
  expect_as_rehearsed({
      {{{"optim", "sgd"}}},
      {{{"optim", "adafactor"}}},
      {{{"optim", "adagrad"}, {"optim_args", "initial_accumulator_value=0.1"}}},
      {{{"optim", "adamw_8bit"}}},
      {{{"optim", "adamw_8bit"}, {"optim_8bit_embeddings", "true"}}},
      {{{"optim", "lion_8bit"}}},
      {{{"optim", "ademamix_8bit"}}},
      {{{"optim", "paged_adamw_8bit"}, {"offload_dir", kDisk}}},
      {{{"optim", "paged_ademamix_32bit"}, {"offload_dir", kDisk}}},
      {{{"optimizer_in_backward", "true"}, {"max_grad_norm", "0"}}},
      {{{"optimizer_in_backward", "true"}, {"clip_by_previous_norm", "true"}, {"bf16", "true"}}},
      {{{"dtype", "bfloat16"}, {"stochastic_rounding", "true"}}},
      {{{"dtype", "bfloat16"}, {"gradient_dtype", "float32"}}},
      {{{"gradient_dtype", "bfloat16"}}},
      {{{"gradient_dtype", "bfloat16"}, {"gradient_accumulation_steps", "3"}}},
      {{{"dtype", "bfloat16"},
        {"stochastic_rounding", "true"},
        {"optim", "adamw_8bit"},
        {"optim_8bit_embeddings", "true"},
        {"optimizer_in_backward", "true"},
        {"gradient_checkpointing", "true"},
        {"max_grad_norm", "0"}}},
  });
}

TEST(Rehearsal, TakesWhatAdaptersTake) {
  TRL_NEED_TINY_RUN();
  const Settings four = {{"use_peft", "true"}, {"load_in_4bit", "true"}, {"bnb_4bit_quant_type", "nf4"}};
  const Settings eight = {{"use_peft", "true"}, {"load_in_8bit", "true"}};
  const auto with = [](Settings all, const Settings& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Settings peft = {{"use_peft", "true"}};
  expect_as_rehearsed({
      {peft, kLora},
      {with(peft, {{"bf16", "true"}}), kLora},
      {with(peft, {{"dtype", "bfloat16"}, {"gradient_checkpointing", "true"}}), kLora},
      {with(peft, {{"gradient_accumulation_steps", "3"}}), kLora},
      {peft, kDora},
      {peft, kPissa},
      {peft, kUpper},
      {four, kLora},
      {with(four, {{"bf16", "true"}}), kLora},
      {with(four, {{"bf16", "true"}, {"gradient_checkpointing", "true"}}), kLora},
      {with(four, {{"use_bnb_nested_quant", "true"}, {"dtype", "bfloat16"}}), kLora},
      {eight, kLora},
      {with(eight, {{"bf16", "true"}, {"gradient_checkpointing", "true"}}), kLora},
  });
}

TEST(Rehearsal, TakesWhatEvaluatingTakes) {
  TRL_NEED_TINY_RUN();
  const Settings every = {{"eval_strategy", "steps"}, {"eval_steps", "1"}};
  const auto with = [&](const Settings& more) {
    Settings all = every;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_as_rehearsed({
      {every},
      {with({{"per_device_train_batch_size", "1"}, {"per_device_eval_batch_size", "11"}})},
      {with({{"per_device_train_batch_size", "1"},
             {"gradient_checkpointing", "true"},
             {"bf16", "true"},
             {"per_device_eval_batch_size", "11"}})},
  });
}

TEST(Rehearsal, TakesWhatExpertsTake) {
  TRL_NEED_TINY_RUN();
  const test::FamilyModel model("qwen3_moe");
  const auto of = [&](Settings settings, const char* lora = nullptr) {
    settings.emplace_back("max_length", "40");
    return Case{settings, lora, model.path(), 0, 0.125};
  };
  expect_as_rehearsed(std::vector<Case>{
      of({}),
      of({{"bf16", "true"}}),
      of({{"gradient_checkpointing", "true"}}),
      of({{"router_aux_loss_coef", "0.01"}, {"gradient_accumulation_steps", "2"}}),
      of({{"use_peft", "true"}}, kLora),
  });
}

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * 4096;
}

TEST(Rehearsal, TakesWhatAHeadInFloat32Takes) {
  TRL_NEED_TINY_RUN();
  for (const Settings& settings : {Settings{{"bf16", "true"}}, Settings{{"dtype", "bfloat16"}},
                                   Settings{{"dtype", "bfloat16"}, {"gradient_accumulation_steps", "3"}}}) {
    Case of{settings};
    const Peaks usual = rehearsed(of);
    of.float32_head = true;
    expect_as_rehearsed(of);
    constexpr auto kWork = static_cast<size_t>(MemoryKind::workspace);
    EXPECT_GT(rehearsed(of)[kWork], usual[kWork]);
  }
}

// The layouts of frozen_compute: int8 are counted, and have no pages.
TEST(Rehearsal, OfInt8TakesWhatItsLayoutsTake) {
  TRL_NEED_TINY_RUN();
  if (!kernels::has_int8_products()) {
    GTEST_SKIP() << "this processor has no products in 8-bit integers (AVX512-VNNI, AMX)";
  }
  const test::SftRun run = tiny_run({{"bf16", "true"}});
  tensor::Parameter weight("w", at::ones({4096, 2048}, at::kBFloat16));
  const int64_t before = test::memory().now(MemoryKind::weights);
  auto products = std::make_unique<kernels::Int8Products>(kernels::Projection{&weight});
  const int64_t held = test::memory().now(MemoryKind::weights) - before;
  EXPECT_GE(held, 2 * weight.count());
  products.reset();
  tensor::trim();
  const tensor::Rehearsal rehearsal;
  const int64_t resident = resident_bytes();
  products = std::make_unique<kernels::Int8Products>(kernels::Projection{&weight});
  EXPECT_LT(resident_bytes() - resident, weight.count());
  int64_t rehearsed = 0;
  for (const tensor::Taken& taken : rehearsal.taken())
    if (taken.kind == MemoryKind::weights) rehearsed += taken.bytes;
  EXPECT_EQ(rehearsed, held);
}

TEST(Rehearsal, LeavesTheCounterAndTheWeightsAlone) {
  TRL_NEED_TINY_RUN();
  const int64_t before = test::memory().now();
  test::memory().reset_peak();
  rehearsed({});
  EXPECT_EQ(test::memory().now(), before);
  EXPECT_EQ(test::memory().peak(), before);
  EXPECT_EQ(tensor::Rehearsal::current(), nullptr);
}

TEST(Plan, FindsThePeakAndWhoHoldsIt) {
  const std::vector<memory::Holding> holdings = {
      {"a", 10, 0, 6}, {"b", 5, 1, 3}, {"a", 1, 2, 5}, {"c", 7, 4, 5}};
  const memory::Plan plan = memory::plan(holdings, 6, 6);
  EXPECT_EQ(plan.peak, 18);
  EXPECT_EQ(plan.peak_event, 4);
  ASSERT_EQ(plan.terms.size(), 3u);
  EXPECT_EQ(plan.terms[0].name, "a");
  EXPECT_EQ(plan.terms[0].at_peak, 11);
  EXPECT_EQ(plan.terms[1].at_peak, 0);
  EXPECT_EQ(plan.terms[1].most, 5);
  EXPECT_EQ(plan.terms[2].at_peak, 7);
  // A picture of two moments still has the peak.
  const memory::Plan coarse = memory::plan(holdings, 6, 2);
  ASSERT_EQ(coarse.moments.size(), 2u);
  EXPECT_EQ(coarse.moments[1].event, 4);
  // And one of its own for what begins at a border, however little that takes.
  const std::vector<int64_t> borders = {5};
  const memory::Plan divided = memory::plan(holdings, 6, 2, borders);
  ASSERT_EQ(divided.moments.size(), 3u);
  EXPECT_EQ(divided.moments[1].event, 4);
  EXPECT_EQ(divided.moments[2].event, 5);
}

}  // namespace
}  // namespace trl::train::rehearsal_test
