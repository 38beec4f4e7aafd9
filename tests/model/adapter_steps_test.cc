// Adapters of every kind on models of several families, beside PEFT on the same weights and from the same
// seed: the losses of a few steps, the gradients of the first, and the tensors of the saved file.
#include <gtest/gtest.h>

#include "checkpoint/save.h"
#include "io/safetensors.h"
#include "kernels/nll_loss.h"
#include "kernels/path.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/seeded_model.h"

namespace trl::model {
namespace {

using base::Json;

// The model of a family, with other fields in its configuration, and without or with a head of its own.
std::unique_ptr<Model> open_changed(const std::string& family, const Json& changes,
                                    const test::Scratch& directory) {
  const test::SeededModel seeded(family);
  Json config = seeded.json["config"];
  config.update(changes);
  base::write_file(directory / "config.json", config.dump());
  std::vector<test::SeededTensor> tensors = seeded.tensors;
  const bool tied = config.value("tie_word_embeddings", true);
  if (tied) std::erase_if(tensors, [](const auto& tensor) { return tensor.name == "lm_head.weight"; });
  std::vector<io::NamedTensor> named;
  for (const test::SeededTensor& tensor : tensors)
    named.push_back({tensor.name, io::ElementType::f32, tensor.shape, tensor.values.data()});
  io::write_safetensors(directory / "model.safetensors", named);
  return Model::open(directory.path(), "float32");
}

struct TwoRows {
  ForwardInput input;
  at::Tensor targets;
};

TwoRows rows_of(int32_t vocab) {
  std::vector<std::vector<int32_t>> rows(2);
  std::vector<int32_t> targets;
  for (int32_t row = 0; row < 2; ++row) {
    for (int32_t i = 0; i < 12; ++i) {
      rows[static_cast<size_t>(row)].push_back((7 * i + 5 * row + 3) % vocab);
      targets.push_back(i < 11 ? (7 * (i + 1) + 5 * row + 3) % vocab : -100);
    }
  }
  return {test::forward_input(rows), test::int_tensor(targets)};
}

double step(Model& model, const TwoRows& rows) {
  for (Parameter* parameter : model.adapters().trained()->parameters())
    at::Tensor(parameter->gradient()).zero_();
  const Output output = model.forward(rows.input, {});
  const at::Tensor loss = test::nll_loss(output.hidden, *output.head.weight, rows.targets, 1.0 / 22,
                                         model.head_options(at::kFloat, output.head), nullptr);
  loss.backward();
  return loss.item<double>();
}

std::vector<std::string> saved_names(const Adapter& adapter) {
  const test::Scratch directory;
  checkpoint::save_adapter(directory / "saved", adapter, {});
  const io::Safetensors file(directory / "saved/adapter_model.safetensors");
  std::vector<std::string> names;
  for (const auto& [name, view] : file.tensors()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void expect_steps(const Json& one, const Json& recorded) {
  const test::Scratch directory;
  const auto model = open_changed(one["model"], one["changes"], directory);
  const config::LoraConfig config = config::read_lora_config(one["config"], "test", Status::format);
  Adapter& adapter = model->adapters().add("default", config, at::kFloat);
  adapter.start(recorded["seed"].get<uint64_t>());
  model->train_only(adapter);
  for (Parameter* p : model->all_parameters())
    p->begin_training(p->trainable ? at::zeros(p->shape()) : at::Tensor());
  EXPECT_EQ(adapter.parameters().size(), one["norms"].size());
  const TwoRows rows = rows_of(static_cast<int32_t>(model->config().vocab_size));
  for (size_t i = 0; i < one["losses"].size(); ++i) {
    const double want = one["losses"][i], got = step(*model, rows);
    EXPECT_NEAR(got, want, 2e-5 * want) << "step " << i;
    for (Parameter* p : adapter.parameters()) {
      if (i == 0) {
        ASSERT_TRUE(one["norms"].contains(p->name)) << p->name;
        const double norm = one["norms"][p->name];
        EXPECT_NEAR(p->gradient().norm().item<double>(), norm, 2e-4 * norm + 1e-6) << p->name;
      }
      const at::Tensor change = p->gradient() * recorded["rate"].get<double>();
      p->write()->sub_(change);
    }
  }
  EXPECT_EQ(saved_names(adapter), one["file"].get<std::vector<std::string>>());
  for (Parameter* p : model->all_parameters()) p->end_training();
}

TEST(AdapterSteps, AreThoseOfPeft) {
  const Json& recorded = test::golden_json("adapters/steps.json");
  EXPECT_GT(recorded["cases"].size(), 25u);
  for (const Json& one : recorded["cases"]) {
    for (const kernels::Path path : {kernels::Path::fused, kernels::Path::plain}) {
      SCOPED_TRACE(one["model"].dump() + one["changes"].dump() + one["config"].dump());
      const kernels::PathScope scope(path);
      expect_steps(one, recorded);
    }
  }
}

// A forward that is computed again in backward, and the head of its output, are those of its own adapter.
TEST(AdapterSteps, AForwardWithAnotherAdapterChangesNothingOfAnEarlierOne) {
  const test::Scratch directory;
  const auto model = open_changed("llama_bias_linear", {{"tie_word_embeddings", false}}, directory);
  const Json fields = {{"r", 4}, {"target_modules", "all-linear"}, {"modules_to_save", {"lm_head"}}};
  const config::LoraConfig config = config::read_lora_config(fields, "test", Status::format);
  Adapter &own = model->adapters().add("own", config, at::kFloat),
          &other = model->adapters().add("other", config, at::kFloat);
  for (Adapter* adapter : {&own, &other}) {
    adapter->start(adapter == &own ? 1 : 2);
    for (Parameter* p : adapter->parameters()) p->write()->add_(at::ones(p->shape()) * 0.01);
  }
  model->train_only(own);
  for (Parameter* p : model->all_parameters())
    p->begin_training(p->trainable ? at::zeros(p->shape()) : at::Tensor());
  const TwoRows rows = rows_of(static_cast<int32_t>(model->config().vocab_size));
  const auto gradients = [&](bool between) {
    for (Parameter* p : own.parameters()) at::Tensor(p->gradient()).zero_();
    const Output output = model->forward(rows.input, {.recompute = {config::Recomputed::layers}});
    if (between) {
      const at::NoGradGuard no_grad;
      EXPECT_NE(model->forward(rows.input, {.adapter = &other}).head.weight, output.head.weight);
      EXPECT_EQ(model->forward(rows.input, {.adapter = nullptr}).head.weight, &model->head());
    }
    test::nll_loss(output.hidden, *output.head.weight, rows.targets, 1.0 / 22,
                   model->head_options(at::kFloat, output.head), nullptr)
        .backward();
    std::vector<at::Tensor> all;
    for (Parameter* p : own.parameters()) all.push_back(p->gradient().flatten().clone());
    return at::cat(all);
  };
  const at::Tensor alone = gradients(false);
  EXPECT_GT(alone.norm().item<double>(), 0);
  EXPECT_TRUE(at::equal(gradients(true), alone));
  for (Parameter* p : model->all_parameters()) p->end_training();
}

struct Begun {
  const char *family, *dtype;
  Json targets;
  config::Quantization quantization = {};
};

// Nothing changes while b is zero, because each magnitude is the norm that it is divided by: beside a bias,
// with transposed weights, in both types, and with weights in blocks.
TEST(NewDora, LeavesEveryBitOfTheModel) {
  const Begun all[] = {{"gpt2", "float32", {"c_attn", "c_fc", "c_proj"}},
                       {"gpt2", "bfloat16", {"c_attn", "c_fc"}},
                       {"llama_bias_linear", "float32", "all-linear"},
                       {"llama_bias_linear", "bfloat16", "all-linear"},
                       {"llama_bias_linear", "float32", "all-linear", {.form = config::WeightForm::int8}},
                       {"cohere", "float32", "all-linear"}};
  for (const Begun& one : all) {
    const test::Scratch directory;
    open_changed(one.family, Json::object(), directory);
    const auto model =
        Model::open(directory.path(), one.dtype, nullptr, at::kCPU, Head::language, one.quantization);
    const Json fields = {{"r", 4}, {"use_dora", true}, {"target_modules", one.targets}};
    Adapter& adapter = model->adapters().add(
        "default", config::read_lora_config(fields, "test", Status::format), at::kFloat);
    adapter.start(42);
    const ForwardInput input = rows_of(static_cast<int32_t>(model->config().vocab_size)).input;
    for (const kernels::Path path : {kernels::Path::fused, kernels::Path::plain}) {
      SCOPED_TRACE(fmt::format("{} {} {}", one.family, one.dtype, static_cast<int>(path)));
      const kernels::PathScope scope(path);
      const at::NoGradGuard no_grad;
      const auto hidden = [&](Adapter* with) {
        return model->forward(input, {.adapter = with}).hidden.clone();
      };
      EXPECT_TRUE(at::equal(hidden(&adapter), hidden(nullptr)));
    }
  }
}

// What is merged gives what the adapter gives, even if embedding and head were one and become two.
TEST(AdapterSteps, MergedAndSavedModelsGiveTheSame) {
  const Json& recorded = test::golden_json("adapters/steps.json");
  for (const Json& one : recorded["cases"]) {
    SCOPED_TRACE(one["model"].dump() + one["changes"].dump() + one["config"].dump());
    if (one["config"].value("lora_bias", false)) continue;  // of modules without a bias
    const test::Scratch directory;
    const auto model = open_changed(one["model"], one["changes"], directory);
    Adapter& adapter = model->adapters().add(
        "default", config::read_lora_config(one["config"], "test", Status::format), at::kFloat);
    adapter.start(1);
    for (Parameter* p : adapter.parameters()) p->write()->add_(at::ones(p->shape()) * 0.01);
    const TwoRows rows = rows_of(static_cast<int32_t>(model->config().vocab_size));
    const auto logits = [&](Model& of, std::optional<Adapter*> with) {
      const at::NoGradGuard no_grad;
      return of.logits(of.forward(rows.input, {.adapter = with}), at::kFloat).clone();
    };
    const at::Tensor alone = logits(*model, nullptr), want = logits(*model, &adapter);
    model->adapters().merge(adapter);
    EXPECT_TRUE(at::allclose(logits(*model, &adapter), want, 1e-4, 1e-3));
    checkpoint::save_model(directory / "merged", *model, {});
    const auto merged = Model::open(directory / "merged", "float32");
    EXPECT_TRUE(at::allclose(logits(*merged, nullptr), want, 1e-4, 1e-3));
    model->adapters().unmerge();
    EXPECT_TRUE(at::equal(logits(*model, nullptr), alone));
    EXPECT_FALSE(at::allclose(alone, want, 1e-4, 1e-3));
  }
}

}  // namespace
}  // namespace trl::model
