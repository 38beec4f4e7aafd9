// Under every option that changes what memory a step takes, and by every method, a run that resumes from a
// checkpoint in a new trainer has the weights and the optimizer states of the run that was never stopped, bit
// by bit.
#include "base/files/files.h"
#include "config/lora_config.h"
#include "train/tiny_run.h"

namespace trl::train::resume_levers_test {
namespace {

using test::joined;
using test::Settings;

constexpr int64_t kHalf = 3;

struct Lever {
  const char* name;
  Settings settings;
  bool adapter = false;
  bool small_tiles = false;
};

const Settings kAgain = {{"gradient_checkpointing", "true"}, {"bf16", "true"}};

Settings again(const char* how) { return joined(kAgain, {{"gradient_checkpointing_kwargs", how}}); }
Settings optim(const char* name) { return {{"optim", name}, {"optim_args", "t_alpha=4,t_beta3=6"}}; }
Settings coded(const char* name) { return {{"optim", name}, {"optim_8bit_embeddings", "true"}}; }
Settings inside(const Settings& more) {
  return joined(more, {{"optimizer_in_backward", "true"}, {"max_grad_norm", "0"}});
}

const Lever kLevers[] = {
    {"layers_again", kAgain},
    {"selective", again("{selective: true}")},
    {"every_second_layer", again("{every_n_layers: 2}")},
    {"inputs_of_layers_leave", again("{offload: true}")},
    {"products_are_kept", joined(kAgain, {{"recompute", "products"}})},
    {"activations_leave", {{"activation_offloading", "true"}}},
    {"compressed_activations_leave",
     {{"activation_offloading", "true"}, {"activation_offloading_zstd", "true"}, {"dtype", "bfloat16"}}},
    {"adamw_8bit", {{"optim", "adamw_8bit"}}},
    {"adamw_8bit_embeddings", coded("adamw_8bit")},
    {"lion_8bit", coded("lion_8bit")},
    {"rmsprop_8bit", coded("rmsprop_bnb_8bit")},
    {"ademamix", optim("ademamix")},
    {"ademamix_8bit", joined(optim("ademamix_8bit"), {{"optim_8bit_embeddings", "true"}})},
    {"paged_adamw_32bit", {{"optim", "paged_adamw_32bit"}}},
    {"paged_adamw_8bit", coded("paged_adamw_8bit")},
    {"paged_lion_32bit", {{"optim", "paged_lion_32bit"}}},
    {"paged_lion_8bit", coded("paged_lion_8bit")},
    {"paged_ademamix_32bit", optim("paged_ademamix_32bit")},
    {"bfloat16_gradients", {{"gradient_dtype", "bfloat16"}, {"gradient_accumulation_steps", "2"}}},
    {"inside_backward", inside(kAgain)},
    {"inside_backward_8bit", inside(coded("adamw_8bit"))},
    {"inside_backward_paged", inside(optim("paged_ademamix_8bit"))},
    {"tiles", kAgain, false, true},
    {"parts", {{"max_tokens_per_pass", "1"}, {"gradient_dtype", "bfloat16"}, {"dtype", "bfloat16"}}},
    {"lora", again("{selective: true, offload: true}"), true},
    {"lora_8bit", joined(kAgain, {{"optim", "adamw_8bit"}, {"gradient_dtype", "bfloat16"}}), true},
    {"lora_paged", {{"optim", "paged_lion_32bit"}, {"activation_offloading", "true"}}, true},
    {"lora_inside_backward", inside(optim("ademamix")), true},
    {"lora_parts_in_tiles", joined(kAgain, {{"max_tokens_per_pass", "1"}}), true, true},
    {"dpo", {{"method", "dpo"}, {"share_prefix_window", "2"}}},
    {"dpo_reference_that_follows",
     {{"method", "dpo"}, {"sync_ref_model", "true"}, {"ref_model_sync_steps", "2"}}},
    {"dpo_lora", {{"method", "dpo"}, {"use_peft", "true"}, {"disable_dropout", "false"}}, true},
    {"kto_reference_that_follows",
     {{"method", "kto"}, {"sync_ref_model", "true"}, {"ref_model_sync_steps", "2"}}},
    {"reward", {{"method", "reward"}, {"share_prefix_window", "4"}}},
};

test::SftRun run_of(const Settings& settings) {
  std::string rows = "data/datasets/train_lm.jsonl";
  for (const auto& [key, value] : settings)
    if (std::string_view(key) == "method") rows = "data/datasets/train_pref.jsonl";
  return {test::tiny_config(settings), test::golden_path("models/qwen2"), test::golden_path(rows), {0, 63}};
}

class ResumeUnder : public testing::TestWithParam<size_t> {};

Trainer& start(test::SftRun& run, const Lever& lever) {
  run.setup.arguments.levers.small_tiles = lever.small_tiles;
  if (!lever.adapter) return run.start();
  const char* const text = R"({"r": 4, "lora_dropout": 0.1, "target_modules": "all-linear"})";
  const config::LoraConfig config =
      config::read_lora_config(base::parse_json(text, "test"), "test", Status::format);
  model::Adapter& adapter = run.model().adapters().add("default", config, at::kFloat);
  adapter.start(7);
  run.model().train_only(adapter);
  return run.start();
}

TEST_P(ResumeUnder, has_the_same_weights_and_states) {
  TRL_NEED_TINY_RUN();
  const Lever& lever = kLevers[GetParam()];
  const test::Scratch scratch;
  const std::string output = scratch / "output";
  const Settings usual = {
      {"max_steps", "6"}, {"offload_dir", TRL_BINARY_DIR}, {"output_dir", output.c_str()}};
  const auto run_to = [&](const char* from, int64_t steps, const char* to) {
    test::SftRun run = run_of(joined(usual, lever.settings));
    Trainer& trainer = start(run, lever);
    if (from != nullptr) trainer.resume(scratch / from);
    for (int64_t step = 0; step < steps; ++step) ASSERT_TRUE(trainer.step());
    trainer.save_checkpoint(scratch / to);
  };
  run_to(nullptr, 2 * kHalf, "whole");
  run_to(nullptr, kHalf, "half");
  run_to("half", kHalf, "resumed");
  const char* const weights = lever.adapter ? "adapter_model.safetensors" : "model.safetensors";
  for (const std::string file : {weights, "optimizer.safetensors"}) {
    const std::string whole = base::read_file(scratch / ("whole/" + file));
    EXPECT_TRUE(base::read_file(scratch / ("resumed/" + file)) == whole) << file;
    EXPECT_FALSE(base::read_file(scratch / ("half/" + file)) == whole) << file;
  }
}

INSTANTIATE_TEST_SUITE_P(Levers, ResumeUnder, testing::Range(size_t{0}, std::size(kLevers)),
                         [](const auto& param) { return kLevers[param.param].name; });

}  // namespace
}  // namespace trl::train::resume_levers_test
