// Training of adapters: whole runs against TRL's with PEFT, and what a run keeps, saves and resumes.
#include <cstring>
#include <filesystem>

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "checkpoint/checkpoint.h"
#include "config/lora_config.h"
#include "io/safetensors.h"
#include "model/golden_batch.h"
#include "support/seeded_model.h"
#include "support/weights.h"
#include "train/recorded_run.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::start_adapter;

// A recorded run, begun from the recorded adapter or (by_seed) from the seed alone. apart: in the name of a
// module of which one value of lora_B and one row of lora_A are not compared.
void expect_peft(const std::string& name, const test::Settings& settings, bool by_seed,
                 const std::string& apart = {}) {
  const std::string folder = "trajectories/" + name + "/";
  const base::Json golden = test::golden_json(folder + "case.json");
  config::Config config = test::config_of(golden);
  for (const auto& [key, value] : settings) config.set(key, value);
  test::SftRun run(config, test::golden_path(golden["model"]), test::golden_path(golden["dataset"]),
                   test::parse_rows(golden["rows"]));
  const std::string first = test::golden_path(folder + "adapter_init");
  const io::Safetensors begin(first + "/adapter_model.safetensors"),
      end(test::golden_path(folder + "adapter_final/adapter_model.safetensors"));
  model::Adapters& adapters = run.model().adapters();
  if (by_seed) {
    adapters.add("default", adapter::read_config(first), at::kFloat).start(42);
  } else {
    adapters.open("default", first);
  }
  model::Adapter& adapter = adapters.get("default");
  for (tensor::Parameter* p : adapter.parameters()) {
    const at::Tensor want = test::golden_tensor(begin, p->name);
    // of norms of rows, whose sums torch forms in another order
    const double share = p->name.ends_with("magnitude_vector") ? 1e-6 : 0;
    ASSERT_TRUE(at::allclose(*p->read(), want, share, 0)) << p->name;
  }
  const std::vector<at::Tensor> before = run.weights();
  run.model().train_only(adapter);
  Trainer& trainer = run.start();
  while (trainer.step()) {
  }
  trainer.finish();
  const base::Json state = base::parse_json(telemetry::trainer_state_json(trainer.state()), "state");
  test::expect_records(golden, state["log_history"]);
  ASSERT_EQ(adapter.parameters().size(), end.tensors().size());
  for (tensor::Parameter* p : adapter.parameters()) {
    const at::Tensor want = test::golden_tensor(end, p->name), start = test::golden_tensor(begin, p->name),
                     got = *p->read();
    size_t left_out = 0;
    if (!apart.empty() && p->name.find(apart) != std::string::npos)
      left_out = p->name.ends_with("lora_B.weight") ? 1 : static_cast<size_t>(p->size(1));
    test::expect_near_by_change(test::values_of(got), test::values_of(start), test::values_of(want),
                                test::share_of_change(p->name, golden["relative_tolerance"]), p->name,
                                left_out);
  }
  const std::vector<at::Tensor> after = run.weights();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << i;
}

void expect_peft_on_each_path(const std::string& name) {
  for (const char* fused_kernels : {"on", "off"}) {
    for (const char* recompute : {"false", "true"}) {
      SCOPED_TRACE(
          fmt::format("{}, fused_kernels: {}, gradient_checkpointing: {}", name, fused_kernels, recompute));
      expect_peft(name, {{"fused_kernels", fused_kernels}, {"gradient_checkpointing", recompute}}, false);
    }
  }
  expect_peft(name, {}, true);
}

TEST(AdapterTrajectory, equals_trl) { expect_peft_on_each_path("sft_lora"); }

// Others, which are in the whole collection alone.
void expect_sft_with_adapters() {
  for (const char* name :
       {"sft_lora_all_linear", "sft_lora_modules_to_save", "sft_lora_rslora_qv", "sft_dora"})
    expect_peft_on_each_path(name);
}

void expect_reward_with_adapter() {
  for (const char* fused_kernels : {"on", "off"})
    expect_peft("reward_lora", {{"fused_kernels", fused_kernels}}, false);
}

// The reference is the model without the adapter.
void expect_preferences_with_adapters() {
  for (const char* name : {"dpo_lora", "kto_lora"}) expect_peft_on_each_path(name);
}

// The reference is the adapter as it began. Adam divides by the size of the gradients, so that where they
// nearly cancel their rounding decides: here for one value of a lora_B, and with it for the row of lora_A
// that it multiplies, by how much depends on the processor.
void expect_an_adapter_that_goes_on() {
  const std::string name = "dpo_lora_pretrained_ref_adapter";
  const std::string begun = test::golden_path("trajectories/" + name + "/adapter_init");
  for (const char* fused_kernels : {"on", "off"}) {
    SCOPED_TRACE(fused_kernels);
    expect_peft(
        name,
        {{"fused_kernels", fused_kernels}, {"use_peft", "true"}, {"adapter_name_or_path", begun.c_str()}},
        false, "layers.1.self_attn.q_proj");
  }
}

// Those whose adapters begin as in the whole collection alone.
TEST(AdapterTrajectories, equal_trl) {
  TRL_NEED_GOLDEN("trajectories/sft_dora/case.json");
  expect_sft_with_adapters();
  expect_reward_with_adapter();
  expect_preferences_with_adapters();
  expect_an_adapter_that_goes_on();
}

// On weights in NF4 blocks, with factors in bfloat16.
TEST(QuantisedTrajectory, IsTrls) {
  for (const std::string name : {"sft_qlora_nf4", "sft_qlora_nf4_double"}) {
    SCOPED_TRACE(name);
    const std::string folder = "trajectories/" + name + "/";
    TRL_NEED_GOLDEN(folder + "case.json");
    const base::Json golden = test::golden_json(folder + "case.json");
    const config::Config config = test::config_of(golden);
    test::SftRun run(config, test::golden_path(golden["model"]), test::golden_path(golden["dataset"]),
                     test::parse_rows(golden["rows"]));
    const std::string first = test::golden_path(folder + "adapter_init");
    const io::Safetensors begin(first + "/adapter_model.safetensors");
    model::Adapter& adapter =
        run.model().adapters().add("default", adapter::read_config(first), at::kBFloat16);
    adapter.start(42);
    for (tensor::Parameter* p : adapter.parameters())
      EXPECT_TRUE(p->read()->to(at::kFloat).equal(test::golden_tensor(begin, p->name))) << p->name;
    run.model().train_only(adapter);
    Trainer& trainer = run.start();
    while (trainer.step()) {
    }
    trainer.finish();
    const base::Json state = base::parse_json(telemetry::trainer_state_json(trainer.state()), "state");
    test::expect_records(golden, state["log_history"]);
    const io::Safetensors end(test::golden_path(folder + "adapter_final/adapter_model.safetensors"));
    for (tensor::Parameter* p : adapter.parameters()) {
      const at::Tensor got = p->read()->to(at::kFloat), from = test::golden_tensor(begin, p->name),
                       want = test::golden_tensor(end, p->name);
      test::expect_near_by_change(test::values_of(got), test::values_of(from), test::values_of(want),
                                  test::share_of_change(p->name, golden["relative_tolerance"]), p->name);
    }
  }
}

// The same for DPO, whose reference is those weights without the adapter. Of each tensor a fingerprint is
// recorded, of how it began too.
TEST(QuantisedTrajectory, OfDpoIsTrls) {
  constexpr const char* kCase = "trajectories/dpo_qlora_nf4/case.json";
  TRL_NEED_GOLDEN(kCase);
  const base::Json golden = test::golden_json(kCase);
  for (const char* fused_kernels : {"on", "off"}) {
    SCOPED_TRACE(fused_kernels);
    config::Config config = test::config_of(golden);
    config.set("fused_kernels", fused_kernels);
    test::SftRun run(config, test::golden_path(golden["model"]), test::golden_path(golden["dataset"]),
                     test::parse_rows(golden["rows"]));
    model::Adapter& adapter = run.model().adapters().add(
        "default", config::read_lora_config(golden["lora"], "test", Status::format), at::kBFloat16);
    adapter.start(42);
    run.model().train_only(adapter);
    const auto fingerprint = [](const base::Json& all, const std::string& name) {
      return all.at(std::string(name).insert(name.rfind('.'), ".default"));
    };
    std::vector<at::Tensor> begun;
    for (tensor::Parameter* p : adapter.parameters()) {
      const at::Tensor begin = begun.emplace_back(p->read()->to(at::kFloat, false, /*copy=*/true));
      test::expect_fingerprint(test::values_of(begin), test::values_of(begin),
                               fingerprint(golden["first_weights"], p->name), 0, p->name);
    }
    Trainer& trainer = run.start();
    while (trainer.step()) {
    }
    trainer.finish();
    const base::Json state = base::parse_json(telemetry::trainer_state_json(trainer.state()), "state");
    test::expect_records(golden, state["log_history"]);
    ASSERT_EQ(begun.size(), golden["final_weights"].size());
    for (size_t i = 0; i < begun.size(); ++i) {
      tensor::Parameter* const p = adapter.parameters()[i];
      const at::Tensor got = p->read()->to(at::kFloat);
      const double share = test::share_of_change(p->name, golden["relative_tolerance"]);
      const base::Json& want = fingerprint(golden["final_weights"], p->name);
      test::expect_fingerprint(test::values_of(got), test::values_of(begun[i]), want, share, p->name);
      test::expect_first_values(test::values_of(got), test::values_of(begun[i]), want, share, p->name);
    }
  }
}

constexpr const char* kQv = R"({"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]})";

// Only the adapter has gradients and states, and nothing is kept for a layer below the first that it changes.
TEST(AdapterRun, TheModelIsFrozenAndCostsNothing) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = test::tiny_run({{"max_steps", "2"}});
  Trainer& trainer = start_adapter(run, kQv);
  int64_t trained = 0, parameters = 0;
  for (const tensor::Parameter* p : run.model().parameters()) EXPECT_FALSE(p->has_gradient()) << p->name;
  for (const tensor::Parameter* p : run.model().adapters().get("default").parameters()) {
    EXPECT_TRUE(p->has_gradient()) << p->name;
    trained += p->count();
    ++parameters;
  }
  const int64_t padding = parameters * 128 + 4096;  // views, pages
  EXPECT_LE(test::memory().now(base::MemoryKind::gradients), 4 * trained + padding);
  EXPECT_LE(test::memory().now(base::MemoryKind::optimizer), 2 * (4 * trained + padding));
  while (trainer.step()) {
  }
}

// A run that stops and goes on is the run that did not stop, bit by bit, with dropout too. The checkpoint
// holds the adapter and none of the model.
TEST(AdapterRun, ResumesToTheSameBits) {
  TRL_NEED_TINY_RUN();
  constexpr const char* kDropped =
      R"({"r": 4, "lora_alpha": 8, "lora_dropout": 0.2, "use_dora": true, "target_modules": "all-linear"})";
  for (const char* recompute : {"false", "true"}) {
    const test::Scratch scratch;
    const std::string output = scratch / "whole", other = scratch / "again";
    const auto run_in = [&](const std::string& directory) {
      return test::tiny_run({{"max_steps", "4"},
                             {"save_strategy", "steps"},
                             {"save_steps", "2"},
                             {"gradient_checkpointing", recompute},
                             {"output_dir", directory.c_str()}});
    };
    test::SftRun whole = run_in(output), again = run_in(other);
    Trainer& trainer = start_adapter(whole, kDropped);
    while (trainer.step()) {
    }
    EXPECT_TRUE(base::file_exists(output + "/checkpoint-2/adapter_model.safetensors"));
    EXPECT_TRUE(base::file_exists(output + "/checkpoint-2/adapter_config.json"));
    EXPECT_FALSE(base::file_exists(output + "/checkpoint-2/model.safetensors"));
    Trainer& resumed = start_adapter(again, kDropped);
    resumed.resume(output + "/checkpoint-2");
    while (resumed.step()) {
    }
    const auto want = whole.model().adapters().get("default").parameters(),
               got = again.model().adapters().get("default").parameters();
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(at::equal(*want[i]->read(), *got[i]->read())) << want[i]->name;
    // What it saved is opened again.
    resumed.save_model(scratch / "saved");
    model::Adapter& saved = again.model().adapters().open("saved", scratch / "saved");
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(at::equal(*want[i]->read(), *saved.parameters()[i]->read())) << want[i]->name;
  }
}

// As versions before wrote it of a bfloat16 model: the rows of tokens, and their states, are bfloat16 too.
void write_older(const std::string& from, const std::string& to) {
  base::StagedDirectory staged(to);
  for (const std::string& name : base::list_directory(from)) {
    if (name == checkpoint::kManifestName) continue;
    if (!name.ends_with(".safetensors")) {
      staged.write(name, base::read_file(from + "/" + name));
      continue;
    }
    const io::Safetensors file(from + "/" + name);
    std::vector<at::Tensor> narrow;
    std::vector<io::NamedTensor> tensors;
    for (const auto& [tensor, view] : file.tensors()) {
      tensors.push_back({tensor, view.type, view.shape, view.data});
      if (tensor.find(adapter::kTokenRows) == std::string::npos) continue;
      ASSERT_EQ(view.type, io::ElementType::f32);
      at::Tensor values = at::empty(view.shape, at::kFloat);
      std::memcpy(values.data_ptr(), view.data, view.bytes);
      narrow.push_back(values.to(at::kBFloat16));
      tensors.back().type = io::ElementType::bf16;
      tensors.back().data = narrow.back().data_ptr();
    }
    EXPECT_FALSE(narrow.empty());
    staged.write(name, [&](base::FileWriter& writer) { io::write_safetensors(writer, tensors); });
  }
  checkpoint::write_manifest(staged, checkpoint::read_manifest(from)->run);
  staged.commit_whole();
}

TEST(AdapterRun, ResumesFromACheckpointWithNarrowTokenRows) {
  TRL_NEED_TINY_RUN();
  TRL_NEED_GOLDEN("models/qwen2_bf16/model.safetensors");
  constexpr const char* kTokens =
      R"({"r": 2, "target_modules": ["q_proj"], "trainable_token_indices": [7, 30]})";
  const test::Scratch scratch;
  const auto run_in = [&](const std::string& output) {
    return test::SftRun(test::tiny_config({{"max_steps", "4"},
                                           {"save_strategy", "steps"},
                                           {"save_steps", "2"},
                                           {"dtype", "bfloat16"},
                                           {"output_dir", output.c_str()}}),
                        test::golden_path("models/qwen2_bf16"),
                        test::golden_path("data/datasets/train_lm.jsonl"), {0, 63});
  };
  const auto rows_of = [](test::SftRun& run) {
    for (tensor::Parameter* p : run.model().adapters().get("default").parameters())
      if (p->name.ends_with(adapter::kTokenRows)) return p->read()->clone();
    return at::Tensor();
  };
  test::SftRun whole = run_in(scratch / "whole");
  Trainer& trainer = start_adapter(whole, kTokens);
  EXPECT_EQ(rows_of(whole).scalar_type(), at::kFloat);
  while (trainer.step()) {
  }
  const std::string half = scratch / "whole/checkpoint-2", older = scratch / "older/checkpoint-2";
  std::filesystem::create_directories(scratch / "older");
  write_older(half, older);
  test::SftRun again = run_in(scratch / "again");
  Trainer& resumed = start_adapter(again, kTokens);
  resumed.resume(older);
  const at::Tensor begun = rows_of(again);
  EXPECT_EQ(begun.scalar_type(), at::kFloat);
  const io::Safetensors file(half + "/adapter_model.safetensors");
  const at::Tensor rows =
      test::golden_tensor(file, "base_model.model.model.embed_tokens" + std::string(adapter::kTokenRows));
  EXPECT_TRUE(at::equal(begun, rows.to(at::kBFloat16).to(at::kFloat)));
  while (resumed.step()) {
  }
  EXPECT_TRUE(at::allclose(rows_of(again), rows_of(whole), 1e-2, 1e-3));
  EXPECT_FALSE(at::equal(rows_of(again), begun));
}

// A mixture of experts with the tokenizer of the small qwen2.
std::string experts_model(const test::Scratch& directory) {
  const std::string from = test::golden_path("models/qwen2") + "/";
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    base::write_file(directory / file, base::read_file(from + file));
  test::SeededModel seeded("mixtral");
  base::Json config = seeded.json["config"];
  config["vocab_size"] = base::read_json_file(from + "config.json")["vocab_size"];
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) config[key] = nullptr;
  config["max_position_embeddings"] = 2048;
  base::write_file(directory / "config.json", config.dump());
  std::vector<io::NamedTensor> named;
  for (test::SeededTensor& tensor : seeded.tensors) {
    if (tensor.shape[0] == 97) {
      tensor.shape[0] = config["vocab_size"];
      const test::Seeded values(3, tensor.name);
      tensor.values.clear();
      for (int64_t i = 0; i < tensor.shape[0] * tensor.shape[1]; ++i)
        tensor.values.push_back(static_cast<float>(values[static_cast<uint64_t>(i)] / 4));
    }
    named.push_back({tensor.name, io::ElementType::f32, tensor.shape, tensor.values.data()});
  }
  io::write_safetensors(directory / "model.safetensors", named);
  return directory.path();
}

// Experts and routers in NF4 blocks and as numbers, packed and not: a run that goes on is the run that did
// not stop.
TEST(AdapterRun, OfExpertsResumesToTheSameBits) {
  TRL_NEED_TINY_RUN();
  const test::Scratch directory;
  const std::string model = experts_model(directory);
  constexpr const char* kAll = R"({"r": 2, "target_modules": "all-linear"})";
  for (const char* four : {"false", "true"}) {
    const test::Scratch scratch;
    const auto run_in = [&](const std::string& output) {
      const config::Config config = test::tiny_config({{"max_steps", "4"},
                                                       {"save_strategy", "steps"},
                                                       {"save_steps", "2"},
                                                       {"gradient_checkpointing", "true"},
                                                       {"packing", four},
                                                       {"use_peft", "true"},
                                                       {"load_in_4bit", four},
                                                       {"output_dir", output.c_str()}});
      return test::SftRun(config, model, test::golden_path("data/datasets/train_lm.jsonl"), {0, 63});
    };
    const std::string output = scratch / "whole";
    test::SftRun whole = run_in(output), again = run_in(scratch / "again");
    Trainer& trainer = start_adapter(whole, kAll);
    std::vector<at::Tensor> begun;
    for (tensor::Parameter* p : whole.model().adapters().get("default").parameters())
      begun.push_back(p->read()->clone());
    while (trainer.step()) {
    }
    Trainer& resumed = start_adapter(again, kAll);
    resumed.resume(output + "/checkpoint-2");
    while (resumed.step()) {
    }
    const auto want = whole.model().adapters().get("default").parameters(),
               got = again.model().adapters().get("default").parameters();
    ASSERT_EQ(want.size(), 28u);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(at::equal(*want[i]->read(), *got[i]->read())) << want[i]->name;
      EXPECT_FALSE(at::equal(*want[i]->read(), begun[i])) << want[i]->name;
    }
    resumed.save_model(scratch / "saved");
    model::Adapter& saved = again.model().adapters().open("saved", scratch / "saved");
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(at::equal(*want[i]->read(), *saved.parameters()[i]->read())) << want[i]->name;
  }
}

at::Tensor hidden_of(model::Model& model, std::optional<model::Adapter*> adapter) {
  const at::NoGradGuard no_grad;
  return model.forward(test::forward_input({{3, 4, 5, 6, 7}}), {.adapter = adapter}).hidden;
}

// olora and pissa take a part out of the weights. A run begins as the model and goes on to the same bits; the
// saved adapter is plain LoRA of twice the rank that fits the model as it was, alone and merged.
TEST(AdapterRun, ThatBeginsAsAPartOfTheWeightsIsSavedAsPlainLora) {
  TRL_NEED_TINY_RUN();
  for (const char* rest :
       {R"("init_lora_weights": "olora")", R"("init_lora_weights": "pissa", "use_dora": true)",
        R"("init_lora_weights": "pissa_niter_4", "use_rslora": true,
                              "rank_pattern": {"v_proj": 2}, "alpha_pattern": {"q_proj": 3})"}) {
    SCOPED_TRACE(rest);
    const std::string text = fmt::format(
        R"({{"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj", "embed_tokens"], {}}})", rest);
    const test::Scratch scratch;
    const auto run_in = [&](const std::string& directory) {
      return test::tiny_run({{"max_steps", "4"},
                             {"save_strategy", "steps"},
                             {"save_steps", "2"},
                             {"output_dir", directory.c_str()}});
    };
    test::SftRun whole = run_in(scratch / "whole"), again = run_in(scratch / "again");
    const at::Tensor alone = hidden_of(whole.model(), nullptr);
    Trainer& trainer = start_adapter(whole, text.c_str());
    model::Adapter& adapter = whole.model().adapters().get("default");
    EXPECT_TRUE(at::allclose(hidden_of(whole.model(), &adapter), alone, 1e-4, 1e-4));
    EXPECT_TRUE(at::equal(hidden_of(whole.model(), nullptr), alone));
    while (trainer.step()) {
    }
    const at::Tensor trained = hidden_of(whole.model(), &adapter);
    EXPECT_FALSE(at::allclose(trained, alone, 1e-2, 1e-2));
    EXPECT_TRUE(at::equal(hidden_of(whole.model(), nullptr), alone));

    Trainer& resumed = start_adapter(again, text.c_str());
    resumed.resume(scratch / "whole/checkpoint-2");
    while (resumed.step()) {
    }
    EXPECT_TRUE(at::equal(hidden_of(again.model(), &again.model().adapters().get("default")), trained));

    trainer.save_model(scratch / "saved");
    const base::Json config = base::read_json_file(scratch / "saved/adapter_config.json");
    EXPECT_EQ(config["r"], 8);
    EXPECT_EQ(config["init_lora_weights"], true);
    const auto fresh = model::Model::open(test::golden_path("models/qwen2"), "float32");
    model::Adapter& saved = fresh->adapters().open("saved", scratch / "saved");
    EXPECT_TRUE(at::allclose(hidden_of(*fresh, &saved), trained, 1e-4, 1e-4));
    trainer.save_merged(scratch / "merged");
    const auto merged = model::Model::open(scratch / "merged", "float32");
    EXPECT_TRUE(at::allclose(hidden_of(*merged, nullptr), trained, 1e-4, 1e-4));
    whole.stop();
    whole.model().adapters().merge(adapter);
    EXPECT_TRUE(at::allclose(hidden_of(whole.model(), &adapter), trained, 1e-4, 1e-4));
    whole.model().adapters().unmerge();
    EXPECT_TRUE(at::equal(hidden_of(whole.model(), nullptr), alone));
  }
}

// Dropout changes a step, recomputing the layers does not.
TEST(AdapterRun, RecomputeDropsTheSame) {
  TRL_NEED_TINY_RUN();
  std::vector<std::vector<at::Tensor>> results;
  for (const auto& [dropout, recompute] :
       {std::pair{"0.3", "false"}, {"0.3", "true"}, {"0", "false"}, {"0", "true"}}) {
    test::SftRun run = test::tiny_run({{"max_steps", "2"}, {"gradient_checkpointing", recompute}});
    Trainer& trainer = start_adapter(
        run, fmt::format(R"({{"r": 4, "lora_dropout": {}, "target_modules": ["q_proj", "v_proj"]}})", dropout)
                 .c_str());
    while (trainer.step()) {
    }
    auto& values = results.emplace_back();
    for (tensor::Parameter* p : run.model().adapters().get("default").parameters())
      values.push_back(p->read()->clone());
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i;
    EXPECT_TRUE(at::equal(results[2][i], results[3][i])) << i;
  }
  EXPECT_FALSE(at::equal(results[0][0], results[2][0]));
}

}  // namespace
}  // namespace trl::train
