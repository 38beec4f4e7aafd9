// Adapters merged into weights in blocks: the result is numbers of the model's dtype, the same as of a model
// that holds the numbers of the blocks, and the blocks are there again afterwards.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "checkpoint/gguf_of.h"
#include "checkpoint/save.h"
#include "config/lora_config.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/seeded_model.h"

namespace trl::checkpoint {
namespace {

using config::Quantization;
using config::WeightForm;
using model::Model;
using test::TemporaryDirectory;

at::Tensor logits_of(Model& model) {
  const at::NoGradGuard guard;
  return model.logits(model.forward(test::forward_input({{3, 4, 5, 6, 7, 8, 9}}), {}), at::kFloat);
}

model::Adapter& add_random(Model& model, const std::string& settings) {
  const base::Json json = base::parse_json(
      R"({"r": 4, "lora_alpha": 6)" + settings +
          (settings.find("target_modules") == settings.npos ? R"(, "target_modules": "all-linear"})" : "}"),
      "test");
  model::Adapter& adapter =
      model.adapters().add("mine", config::read_lora_config(json, "test", Status::format), at::kFloat);
  adapter.start(3);
  at::manual_seed(5);
  for (tensor::Parameter* p : adapter.parameters()) {
    const auto has = [&](const char* part) { return p->name.find(part) != std::string::npos; };
    if (has("lora_B") || has("lora_embedding_A")) p->write()->copy_(at::randn(p->read()->sizes()) * 0.05);
    if (has("embed_tokens") && !has("lora_")) p->write()->mul_(1.25);
  }
  return adapter;
}

void expect_same_values(Model& got, Model& want, double share) {
  const auto a = got.parameters(), b = want.parameters();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i]->encoded(), nullptr) << a[i]->name;
    EXPECT_EQ(a[i]->dtype(), b[i]->dtype()) << a[i]->name;
    const at::Tensor x = a[i]->read()->to(at::kFloat), y = b[i]->read()->to(at::kFloat);
    EXPECT_TRUE(at::allclose(x, y, share, share * y.abs().max().item<double>())) << a[i]->name;
  }
}

// quantised: with weights in blocks. Its numbers, merged as an ordinary model, are what is wanted.
void expect_merged(Model& quantised, const std::string& dtype, const std::string& settings) {
  const TemporaryDirectory directory;
  save_model(directory.file("numbers"), quantised, {});
  const auto numbers = Model::open(directory.file("numbers"), dtype);
  const at::Tensor alone = logits_of(quantised);
  model::Adapter& adapter = add_random(quantised, settings);
  save_adapter(directory.file("adapter"), adapter, {});
  quantised.adapters().use(&adapter);
  const at::Tensor adapted = logits_of(quantised);
  quantised.adapters().use(nullptr);
  EXPECT_FALSE(adapted.equal(alone));
  {
    const auto merged = quantised.adapters().merged_to_save(adapter);
    save_model(directory.file("merged"), quantised, {});
    save_gguf(directory.file("gguf"), quantised, {"auto", {}});
  }
  EXPECT_TRUE(logits_of(quantised).equal(alone));
  const auto merged = Model::open(directory.file("merged"), dtype);
  numbers->adapters().merge(numbers->adapters().open("mine", directory.file("adapter")));
  const double share = dtype == "float32" ? 1e-6 : 1.0 / 256;
  expect_same_values(*merged, *numbers, share);
  expect_same_values(*Model::open(directory.file("gguf") + "/model.gguf", dtype), *merged, 0);
  EXPECT_LT((logits_of(*merged) - adapted).norm().item<double>(),
            (dtype == "float32" ? 1e-5 : 2e-2) * adapted.norm().item<double>());
  quantised.adapters().merge(adapter);
  const at::Tensor got = logits_of(quantised), want = logits_of(*merged);
  if (merged->config().family->transposed) {  // whose numbers are multiplied as [in, out]
    EXPECT_TRUE(at::allclose(got, want, 1e-5, 1e-6));
  } else {
    EXPECT_TRUE(got.equal(want));
  }
  quantised.adapters().unmerge();
  quantised.adapters().use(nullptr);
  EXPECT_TRUE(logits_of(quantised).equal(alone));
  size_t blocks = 0;
  for (const tensor::Parameter* p : quantised.parameters()) blocks += p->encoded() != nullptr ? 1 : 0;
  EXPECT_GT(blocks, 8u);
}

TEST(MergedQuantised, IsTheMergedModelOfTheirNumbers) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const std::pair<const char*, Quantization> forms[] = {{"nf4", {WeightForm::nf4}},
                                                        {"nf4 nested", {WeightForm::nf4, true}},
                                                        {"fp4", {WeightForm::fp4}},
                                                        {"int8", {WeightForm::int8}}};
  for (const auto& [name, form] : forms) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      for (const char* settings : {"", R"(, "use_dora": true)", R"(, "use_rslora": true, "bias": "all")"}) {
        SCOPED_TRACE(fmt::format("{} {}{}", name, dtype, settings));
        const auto quantised = Model::open(test::golden_path("models/qwen2"), dtype, nullptr, at::kCPU,
                                           model::Head::language, form);
        expect_merged(*quantised, dtype, settings);
      }
    }
  }
}

// Whose files have weights as [in, out].
TEST(MergedQuantised, OfGpt2) {
  const test::SeededModel seeded("gpt2");
  for (const WeightForm form : {WeightForm::nf4, WeightForm::int8}) {
    expect_merged(
        *Model::open(seeded.directory.path(), "float32", nullptr, at::kCPU, model::Head::language, {form}),
        "float32", "");
  }
}

TEST(MergedQuantised, IsThatOfAGgufFileToo) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  for (const char* type : {"q8_0", "q4_0", "f16"}) {
    SCOPED_TRACE(type);
    expect_merged(*Model::open(test::write_gguf_of(directory, "llama", type), "keep"), "float32", "");
  }
}

// Whose embedding is in blocks too.
TEST(MergedQuantised, IsThatOfAnEmbeddingToo) {
  TRL_NEED_GOLDEN("models/llama3/config.json");
  const TemporaryDirectory directory;
  const std::string file = test::write_gguf_of(directory, "llama3", "q8_0");
  for (const char* settings :
       {R"(, "target_modules": ["q_proj", "embed_tokens"])", R"(, "modules_to_save": ["embed_tokens"])",
        R"(, "trainable_token_indices": [4, 9])"}) {
    SCOPED_TRACE(settings);
    expect_merged(*Model::open(file, "keep"), "float32", settings);
  }
}

}  // namespace
}  // namespace trl::checkpoint
