// Whole runs against TRL's: every logged value, the order of rows, and the final weights.
#include <filesystem>

#include "io/safetensors.h"
#include "io/temporary_file.h"
#include "kernels/attention/attention_plugin.h"
#include "model/golden_batch.h"
#include "support/trajectories.h"
#include "train/recorded_run.h"

namespace trl::train {
namespace {

using test::config_of;
using test::expect_records;
using test::values_of;

// With attention in plain operators or from a plug-in, bf16 autocast rounds otherwise. Norms and biases of
// the queries have few values, some of them with gradients that are rounding alone, of which Adam makes steps
// of full size: TRL's own two attentions (sdpa, eager) leave them up to 0.112 of the change apart in
// sft_bf16_autocast, and twice that is the limit. Theirs of matrices are at most 0.07 apart.
double share_of(const std::string& name, double wide, bool other_attention) {
  const bool few = name.ends_with("norm.weight") || name.ends_with("q_proj.bias");
  return other_attention && few && wide > 1e-3 ? 0.22 : test::share_of_change(name, wide);
}

void expect_weights(const base::Json& golden, model::Model& model, bool other_attention) {
  const std::string name = golden["name"];
  const std::string final_file = test::golden_path("trajectories/" + name + "/final.safetensors");
  std::unique_ptr<io::Safetensors> whole;
  if (!final_file.empty()) whole = std::make_unique<io::Safetensors>(final_file);
  const auto first =
      model::Model::open(test::golden_path(golden["model"].get<std::string>()), "float32", nullptr, at::kCPU,
                         model.config().labels > 0 ? model::Head::reward : model::Head::language);
  size_t compared = 0;
  for (tensor::Parameter* p : model.parameters()) {
    tensor::Parameter* start = first->parameters()[compared++];
    ASSERT_EQ(start->name, p->name);
    ASSERT_TRUE(golden["final_weights"].contains(p->name)) << p->name;
    const base::Json& want = golden["final_weights"][p->name];
    ASSERT_EQ(base::Json(p->shape().vec()), want["shape"]) << p->name;
    const double share = share_of(p->name, golden["relative_tolerance"], other_attention);
    const at::Tensor value = p->read()->to(at::kFloat), begin = *start->read();
    test::expect_fingerprint(values_of(value), values_of(begin), want, share, p->name);
    if (!whole) {
      const size_t apart = golden["relative_tolerance"].get<double>() > 1e-3 ? 2 : 0;
      test::expect_first_values(values_of(value), values_of(begin), want, share, p->name, apart);
      continue;
    }
    const at::Tensor recorded = test::golden_tensor(*whole, p->name);
    const at::Tensor got = test::recorded_columns(value, recorded).contiguous(),
                     from = test::recorded_columns(begin, recorded).contiguous();
    test::expect_near_by_change(values_of(got), values_of(from), values_of(recorded), share, p->name);
  }
  const bool tied = model.config().tie_word_embeddings;
  EXPECT_EQ(compared + (tied ? 1 : 0), golden["final_weights"].size());
}

// The run, and fused_kernels.
class Trajectory : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

// plugin: its attention instead of the built-in one.
void expect_trls(const std::string& name, const std::string& fused_kernels, const char* plugin = nullptr,
                 const char* share_prefix = "auto") {
  const std::string relative = "trajectories/" + name + "/case.json";
  TRL_NEED_GOLDEN(relative);
  const base::Json golden = test::golden_json(relative);
  std::optional<test::Rows> eval_rows;
  if (!golden["eval_rows"].is_null()) eval_rows = test::parse_rows(golden["eval_rows"]);
  config::Config config = config_of(golden);
  config.set("fused_kernels", fused_kernels);
  config.set("output_dir", config.get("output_dir") + "_" + fused_kernels);
  config.set("share_prefix", share_prefix);
  test::SftRun run(config, test::golden_path(golden["model"]), test::golden_path(golden["dataset"]),
                   test::parse_rows(golden["rows"]), eval_rows);
  if (plugin != nullptr) run.setup.attention = std::make_shared<const kernels::AttentionPlugin>(plugin);
  Trainer& trainer = run.start();
  EXPECT_EQ(trainer.max_steps(), golden["num_update_steps"].get<int64_t>());
  int64_t steps = 0;
  while (trainer.step()) ++steps;
  trainer.finish();
  EXPECT_EQ(steps, golden["num_update_steps"].get<int64_t>());
  if (golden.contains("row_order")) {
    EXPECT_EQ(base::Json(run.train_stream().order), golden["row_order"]);
  }

  const std::string directory = run.setup.arguments.output_dir;
  const base::Json state = base::read_json_file(directory + "/trainer_state.json");
  // Under autocast logits have eight bits, and which of two that are nearly equal is the larger follows from
  // how attention was rounded: one of the hundred tokens of a step may count otherwise.
  const bool rounded = plugin != nullptr && golden["relative_tolerance"].get<double>() > 1e-3;
  expect_records(golden, state["log_history"], rounded ? 0.01 : 0);
  expect_weights(golden, run.model(), plugin != nullptr || fused_kernels == "off");
  std::filesystem::remove_all(directory);
}

TEST_P(Trajectory, equals_trl) { expect_trls(std::get<0>(GetParam()), std::get<1>(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Golden, Trajectory,
                         testing::Combine(testing::ValuesIn(test::kSftTrajectories),
                                          testing::Values("on", "off")),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "_fused_" +
                                  std::get<1>(param.param);
                         });

void expect_sft_of_other_families() {
  for (const char* name :
       {"sft_phi3", "sft_gemma2_softcap", "sft_gemma3", "sft_gpt2", "sft_moe_aux", "sft_moe_no_aux"}) {
    for (const char* fused_kernels : {"on", "off"}) {
      SCOPED_TRACE(fmt::format("{}, fused_kernels: {}", name, fused_kernels));
      expect_trls(name, fused_kernels);
    }
  }
}

// Every token that rows have in common computed once: pairs, prompts under one template, packed rows.
TEST(SharedTrajectories, EqualTrl) {
  for (const char* name : {"dpo_sigmoid", "dpo_gradient_checkpointing", "dpo_eval", "sft_completion_only",
                           "sft_pack_bfd", "sft_mistral_sliding", "sft_eval_packed", "kto_plain",
                           "kto_apo_zero_unpaired", "kto_precompute", "kto_eval"}) {
    SCOPED_TRACE(name);
    expect_trls(name, "on", nullptr, "true");
  }
}

// DPO with every loss, with all weights trained.
class DpoTrajectory : public testing::TestWithParam<const char*> {};
TEST_P(DpoTrajectory, EqualsTrl) { expect_trls(GetParam(), "on"); }
INSTANTIATE_TEST_SUITE_P(Golden, DpoTrajectory,
                         testing::Values("dpo_sigmoid", "dpo_hinge", "dpo_ipo", "dpo_exo_pair",
                                         "dpo_nca_pair", "dpo_robust", "dpo_bco_pair", "dpo_sppo_hard",
                                         "dpo_aot", "dpo_aot_unpaired", "dpo_apo_zero", "dpo_apo_down",
                                         "dpo_discopop", "dpo_sft", "dpo_sigmoid_norm", "dpo_mpo", "dpo_js",
                                         "dpo_ld", "dpo_wpo", "dpo_eval", "dpo_shuffled", "dpo_sync_ref",
                                         "dpo_ga2_conv_llama3", "dpo_gradient_checkpointing",
                                         "dpo_precompute"),
                         [](const auto& param) { return param.param; });

// Products in bfloat16, and weights too.
TEST(DpoTrajectories, InBfloat16EqualTrls) {
  for (const char* name : {"dpo_bf16", "dpo_bf16_weights"}) {
    for (const char* fused_kernels : {"on", "off"}) {
      SCOPED_TRACE(fmt::format("{}, fused_kernels: {}", name, fused_kernels));
      expect_trls(name, fused_kernels);
    }
  }
}

// TRL 1.16 takes padding_free of DPO, says that it is not there at the moment, and pads: the rows one behind
// the other come to the same, num_tokens included. Nothing differs.
TEST(DpoTrajectories, WithoutPaddingEqualTrls) {
  for (const char* fused_kernels : {"on", "off"}) expect_trls("dpo_padding_free", fused_kernels);
}

// KTO with all weights trained.
class KtoTrajectory : public testing::TestWithParam<const char*> {};
TEST_P(KtoTrajectory, EqualsTrl) { expect_trls(GetParam(), "on"); }
INSTANTIATE_TEST_SUITE_P(Golden, KtoTrajectory,
                         testing::Values("kto_plain", "kto_apo_zero_unpaired", "kto_from_preference",
                                         "kto_weights_ga2", "kto_precompute", "kto_eval", "kto_sync_ref"),
                         [](const auto& param) { return param.param; });

TEST(DpoTrajectories, OnThePlainPathEqualTrls) {
  for (const char* name : {"dpo_sigmoid", "dpo_ipo", "dpo_ld", "dpo_wpo", "dpo_eval", "dpo_sync_ref"}) {
    SCOPED_TRACE(name);
    expect_trls(name, "off");
  }
}

// Whose models are in the whole collection alone.
void expect_dpo_of_other_families() {
  for (const char* name : {"dpo_other_ref", "dpo_moe_aux"}) {
    SCOPED_TRACE(name);
    for (const char* fused_kernels : {"on", "off"}) expect_trls(name, fused_kernels);
    expect_trls(name, "on", nullptr, "true");
  }
}

// Reward models, whose head is in the files.
void expect_reward_of_other_families() {
  for (const char* name : {"reward_plain", "reward_margin_center", "reward_eval_ga2"}) {
    SCOPED_TRACE(name);
    for (const char* fused_kernels : {"on", "off"}) expect_trls(name, fused_kernels);
    expect_trls(name, "on", nullptr, "true");
  }
}

// Other families, whose models are in the whole collection alone.
TEST(FamilyTrajectories, equal_trl) {
  TRL_NEED_GOLDEN("trajectories/sft_phi3/case.json");
  expect_sft_of_other_families();
  expect_dpo_of_other_families();
  expect_reward_of_other_families();
}

class PluginTrajectory : public testing::TestWithParam<const char*> {};
TEST_P(PluginTrajectory, equals_trl) { expect_trls(GetParam(), "on", TRL_TEST_PLUGINS "/attention.so"); }
INSTANTIATE_TEST_SUITE_P(Golden, PluginTrajectory,
                         testing::Values("sft_plain", "sft_eval", "sft_mistral_sliding", "sft_bf16_autocast",
                                         "sft_bf16_checkpoint", "sft_gradient_checkpointing", "sft_pack_bfd"),
                         [](const auto& param) { return param.param; });

// TRL's own resume, from the checkpoint in the middle of the first epoch. Two things differ on purpose:
// num_tokens and train_loss go on counting, as in the run that was never interrupted.
TEST(Trajectories, resume_is_trls) {
  TRL_NEED_GOLDEN("trajectories/sft_resume/case.json");
  base::Json golden = test::golden_json("trajectories/sft_resume/case.json");
  const auto run_in = [&](const std::string& output) {
    config::Config config = config_of(golden);
    config.set("save_strategy", "steps");
    config.set("output_dir", output);
    return test::SftRun(config, test::golden_path(golden["model"]), test::golden_path(golden["dataset"]),
                        test::parse_rows(golden["rows"]));
  };
  const test::TemporaryDirectory directory = test::TemporaryDirectory::in_memory();
  test::SftRun whole = run_in(directory.file("whole"));
  Trainer& trainer = whole.start();
  while (trainer.step()) {
  }
  trainer.finish();
  EXPECT_EQ(base::Json(whole.train_stream().order), golden["row_order"]);
  const auto log_history = [](const Trainer& run) {
    return base::parse_json(telemetry::trainer_state_json(run.state()), "state")["log_history"];
  };
  expect_records(golden, log_history(trainer));

  const std::string from = directory.file("whole/" + golden["resumed_from"].get<std::string>());
  // The checkpoint's trainer_state.json is Trainer's to the letter, except for the last digits of the
  // metrics.
  const base::Json state = base::read_json_file(from + "/trainer_state.json");
  base::Json want = base::parse_json(golden["trainer_state"].get<std::string>(), "trainer_state");
  for (const auto& [name, value] : want.items()) {
    if (name != "log_history") {
      EXPECT_EQ(state[name], value) << name;
    }
  }
  EXPECT_EQ(state.size(), want.size());
  for (const base::Json& name : golden["checkpoint_files"]) {
    const std::string text = name;
    if (text.ends_with(".pt") || text.ends_with(".pth") || text.ends_with(".bin"))
      continue;  // ours: README.md
    EXPECT_TRUE(base::file_exists(from + "/" + text) || text.find("token") != text.npos ||
                text == "chat_template.jinja")
        << text;
  }

  test::SftRun again = run_in(directory.file("again"));
  Trainer& resumed = again.start();
  resumed.resume(from);
  while (resumed.step()) {
  }
  resumed.finish();
  EXPECT_EQ(base::Json(again.train_stream().order), golden["resumed_row_order"]);
  base::Json expected = golden;
  expected["log_history"] = golden["resumed_log_history"];
  for (size_t i = 0; i < expected["log_history"].size(); ++i) {
    for (const char* name : {"num_tokens", "train_loss"}) {
      if (golden["log_history"][i].contains(name))
        expected["log_history"][i][name] = golden["log_history"][i][name];
    }
  }
  expect_records(expected, log_history(resumed));
  expect_weights(golden, again.model(), false);
}

// total_flos of a run of which TRL's own trainer_state.json is recorded.
TEST(Trajectories, total_flos_is_trainers) {
  TRL_NEED_GOLDEN("trajectories/sft_resume/case.json");
  base::Json golden = test::golden_json("trajectories/sft_resume/case.json");
  golden["args"].erase("save_strategy");
  test::SftRun run(config_of(golden), test::golden_path(golden["model"]),
                   test::golden_path(golden["dataset"]), test::parse_rows(golden["rows"]));
  Trainer& trainer = run.start();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(trainer.step());
  const base::Json want = base::parse_json(golden["trainer_state"].get<std::string>(), "trainer_state");
  EXPECT_EQ(trainer.state().total_flos, want["total_flos"].get<double>());
  EXPECT_EQ(trainer.state().epoch, want["epoch"].get<double>());
  EXPECT_EQ(trainer.state().num_train_epochs, want["num_train_epochs"].get<int64_t>());
  EXPECT_EQ(trainer.state().train_batch_size, want["train_batch_size"].get<int64_t>());
}

}  // namespace
}  // namespace trl::train
