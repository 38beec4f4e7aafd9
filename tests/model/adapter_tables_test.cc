// An embedding and head beside an adapter, as PEFT's save_embedding_layers writes them where tokens were
// added: the logits are those of PEFT 0.21.2, which loads them into the model. Here they are the adapter's.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include <map>

#include "adapter/tensors.h"
#include "base/files/files.h"
#include "checkpoint/save.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace trl::model {
namespace {

struct TableCase {
  const char* base;
  int64_t rows;
  std::map<std::string, int64_t> tables;  // names, and what their numbers are made by
  bool on_embedding = false;
  std::array<double, 6> logits = {};  // the first of token 5 behind 3 and 4
};

const std::string kEmbedding = "model.embed_tokens.weight", kHead = "lm_head.weight",
                  kInnerEmbedding = "model.embed_tokens.base_layer.weight";

const std::vector<TableCase>& cases() {
  static const std::vector<TableCase> all = {
      {"llama3",
       448,
       {{kEmbedding, 7}, {kHead, 5}},
       false,
       {-1.252647, -0.056248, 1.022622, -0.076406, -0.105404, -1.45826}},
      {"llama3",
       456,
       {{kEmbedding, 7}, {kHead, 5}},
       false,
       {-1.252647, -0.056248, 1.022622, -0.076406, -0.105404, -1.45826}},
      {"llama3",
       448,
       {{kInnerEmbedding, 7}, {kHead, 5}},
       true,
       {-0.953966, -0.17329, 1.059, -0.098964, -0.354015, -1.332453}},
      // Tied models. Of two that differ, PEFT sets the head's last.
      {"qwen2",
       520,
       {{kEmbedding, 7}, {kHead, 7}},
       false,
       {-0.336746, 0.463384, -1.164346, 0.84882, -1.971762, 2.142116}},
      {"qwen2",
       512,
       {{kEmbedding, 7}},
       false,
       {-0.336746, 0.463384, -1.164346, 0.84882, -1.971762, 2.142116}},
      {"qwen2",
       512,
       {{kEmbedding, 7}, {kHead, 5}},
       false,
       {0.531183, 2.019804, -1.408798, -0.145979, -0.004061, 0.066424}},
      {"qwen2",
       512,
       {{kInnerEmbedding, 7}},
       true,
       {-0.25901, 0.26588, -1.375905, 0.533806, -1.554968, 1.619765}}};
  return all;
}

at::Tensor made(int64_t rows, int64_t columns, int64_t factor, int64_t modulus = 11, double divisor = 40) {
  const at::Tensor places = at::arange(rows).unsqueeze(1) * factor + at::arange(columns) * 3;
  return ((places % modulus - modulus / 2).to(at::kFloat) / divisor).contiguous();
}

void write_files(const test::Scratch& directory, const TableCase& one) {
  std::map<std::string, at::Tensor> values;
  const std::string prefix = "base_model.model.";
  for (const int layer : {0, 1}) {
    for (const auto& [module, out] : {std::pair{"q_proj", 64}, {"v_proj", 32}}) {
      const std::string name = fmt::format("{}model.layers.{}.self_attn.{}.lora_", prefix, layer, module);
      values[name + "A.weight"] = made(2, 64, 7);
      values[name + "B.weight"] = made(out, 2, 5);
    }
  }
  if (one.on_embedding) {
    values[prefix + "model.embed_tokens.lora_embedding_A"] = made(2, one.rows, 7);
    values[prefix + "model.embed_tokens.lora_embedding_B"] = made(64, 2, 5);
  }
  for (const auto& [name, factor] : one.tables) values[prefix + name] = made(one.rows, 64, factor, 13, 32);
  base::write_file(
      directory / "adapter_config.json",
      fmt::format(R"({{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj", )"
                  R"("v_proj"{}]}})",
                  one.on_embedding ? R"(, "embed_tokens")" : ""));
  std::vector<io::NamedTensor> named;
  for (const auto& [name, tensor] : values)
    named.push_back({name, io::ElementType::f32, tensor.sizes().vec(), tensor.data_ptr()});
  io::write_safetensors(directory / "adapter_model.safetensors", named);
}

std::unique_ptr<Model> model_for(const test::Scratch& adapter, const TableCase& one) {
  auto model = Model::open(test::golden_path(std::string("models/") + one.base), "float32");
  EXPECT_EQ(adapter::embedding_rows(adapter.path()), one.rows);
  if (model->config().vocab_size != one.rows) model->resize_embeddings(one.rows);
  return model;
}

at::Tensor logits(Model& model, Adapter* with) {
  const at::NoGradGuard no_grad;
  return model.logits(model.forward(test::forward_input({{3, 4, 5}}), {.adapter = with}), at::kFloat)[2]
      .clone();
}

TEST(AdapterTables, AreThoseOfTheAdapter) {
  TRL_NEED_GOLDEN("models/qwen2");
  for (const TableCase& one : cases()) {
    SCOPED_TRACE(fmt::format("{} {} {}", one.base, one.rows, one.tables.begin()->first));
    const test::Scratch directory, again;
    write_files(directory, one);
    const auto model = model_for(directory, one);
    const at::Tensor alone = logits(*model, nullptr);
    Adapter& adapter = model->adapters().open("default", directory.path());
    const at::Tensor with = logits(*model, &adapter);
    for (size_t i = 0; i < one.logits.size(); ++i)
      EXPECT_NEAR(with[static_cast<int64_t>(i)].item<double>(), one.logits[i], 2e-5) << i;
    EXPECT_TRUE(at::equal(logits(*model, nullptr), alone));
    model->adapters().merge(adapter);
    EXPECT_TRUE(at::allclose(logits(*model, &adapter), with, 1e-4, 1e-4));
    model->adapters().unmerge();
    EXPECT_TRUE(at::equal(logits(*model, &adapter), with));
    // Only its factors are trained, and what is saved is the same adapter.
    model->train_only(adapter);
    EXPECT_EQ(adapter.parameters().size(), one.on_embedding ? 10u : 8u);
    for (const Parameter* table : adapter.kept_tables()) EXPECT_FALSE(table->trainable);
    checkpoint::save_adapter(again.path(), adapter, {});
    const auto other = model_for(again, one);
    EXPECT_TRUE(at::equal(logits(*other, &other->adapters().open("default", again.path())), with));
    EXPECT_TRUE(at::equal(logits(*model, &model->adapters().copy("ref", adapter)), with));
  }
}

// What a generator has computed with a table is computed anew when the table is written.
TEST(AdapterTables, CountInTheVersion) {
  TRL_NEED_GOLDEN("models/qwen2");
  const TableCase one = cases().front();
  const test::Scratch directory;
  write_files(directory, one);
  const auto model = model_for(directory, one);
  Adapter& adapter = model->adapters().open("default", directory.path());
  ASSERT_FALSE(adapter.kept_tables().empty());
  const uint64_t before = adapter.version();
  adapter.kept_tables().front()->write()->mul_(2);
  EXPECT_NE(adapter.version(), before);
}

// The copy of modules_to_save counts; what its module was in the base does not matter to it.
TEST(AdapterTables, TheOriginalOfASavedModuleMayDiffer) {
  TRL_NEED_GOLDEN("models/llama3");
  const test::Scratch directory;
  write_files(directory, {"llama3", 448, {{kHead, 5}, {"lm_head.original_module.weight", 7}}});
  base::write_file(
      directory / "adapter_config.json",
      R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj"], )"
      R"("modules_to_save": ["lm_head"]})");
  const auto model = Model::open(test::golden_path("models/llama3"), "float32");
  const Adapter& adapter = model->adapters().open("default", directory.path());
  EXPECT_TRUE(adapter.kept_tables().empty());
}

}  // namespace
}  // namespace trl::model
