// The files of an adapter: what PEFT writes, and what is wrong with one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "adapter/config_file.h"
#include "adapter/target_modules.h"
#include "adapter/tensors.h"
#include "base/files/files.h"
#include "recorded_models.h"
#include "support/error_of.h"
#include "support/scratch.h"

namespace trl::adapter {
namespace {

using test_models::Model;
using test_models::model_of;

config::LoraConfig read(base::Json fields, const Model& model) {
  if (!fields.contains("task_type")) fields["task_type"] = "CAUSAL_LM";
  fields["base_model_name_or_path"] = "base";
  return with_stacked_experts(config::read_lora_config(fields, "peft_config", Status::invalid_config),
                              model.modules, model.type);
}

TEST(AdapterFiles, ConfigIsWhatPeftWrites) {
  for (const base::Json& one : test::golden_json("adapters/files.json")) {
    const Model model = model_of(one["model"]);
    const config::LoraConfig config = read(one["config"], model);
    const Selection selection = select(config, model.modules, model.type);
    const std::string text = config_text(config, selection, model.modules);
    EXPECT_EQ(base::parse_json(text, "ours"), one["saved"]) << one["config"];
    EXPECT_TRUE(text.starts_with("{\n  \"alora_invocation_tokens\": ")) << text;
    EXPECT_LT(text.find("\n  \"alpha_pattern\": {"), text.find("\n  \"arrow_config\": null")) << text;
  }
}

TEST(AdapterFiles, WhatPeftWritesSelectsTheSameModules) {
  const test::Scratch scratch;
  for (const base::Json& one : test::golden_json("adapters/files.json")) {
    const Model model = model_of(one["model"]);
    base::write_file(scratch / "adapter_config.json", one["saved"].dump());
    const config::LoraConfig config = read_config(scratch.path(), model.modules, model.type);
    EXPECT_EQ(config.base_model_name_or_path, "base");
    const Selection ours = select(read(one["config"], model), model.modules, model.type);
    const Selection theirs = select(config, model.modules, model.type);
    ASSERT_EQ(theirs.targets.size(), ours.targets.size()) << one["config"];
    for (size_t i = 0; i < ours.targets.size(); ++i) {
      EXPECT_EQ(theirs.targets[i].module, ours.targets[i].module);
      EXPECT_EQ(theirs.targets[i].scaling, ours.targets[i].scaling);
    }
    EXPECT_EQ(theirs.saved, ours.saved);
    EXPECT_EQ(theirs.tokens, ours.tokens);
  }
}

TEST(AdapterFiles, TensorsAreThoseOfPeft) {
  for (const base::Json& one : test::golden_json("adapters/files.json")) {
    const Model model = model_of(one["model"]);
    const config::LoraConfig config = read(one["config"], model);
    base::Json got = base::Json::object();
    std::vector<Tensor> all = tensors(config, select(config, model.modules, model.type), model.modules);
    std::sort(all.begin(), all.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
    base::Json want = one["tensors"];
    for (const Tensor& tensor : all) {
      if (tensor.optional && !want.contains(tensor.name)) continue;
      got[tensor.name] = tensor.shape;
      if (tensor.shape.empty() && want.contains(tensor.name)) want[tensor.name] = base::Json::array();
    }
    EXPECT_EQ(got, want) << one["config"];
  }
}

class BadFile : public ::testing::Test {
 protected:
  BadFile() : model_(model_of("llama")), config_(read({{"target_modules", {"q_proj"}}, {"r", 2}}, model_)) {
    wanted_ = tensors(config_, select(config_, model_.modules, model_.type), model_.modules);
    for (const Tensor& tensor : wanted_) {
      const int64_t count = tensor.shape[0] * tensor.shape[1];
      values_[tensor.name].assign(static_cast<size_t>(count), 0.5f);
      named_.push_back({tensor.name, io::ElementType::f32, tensor.shape, values_[tensor.name].data(), {}});
    }
  }
  std::pair<Status, std::string> open() {
    io::write_safetensors(scratch_ / "adapter_model.safetensors", named_);
    auto error = test::error_of([&] { open_weights(scratch_.path(), wanted_); });
    const std::string where = base::join_path(scratch_.path(), "adapter_model.safetensors") + ": ";
    if (error.second.starts_with(where)) error.second.erase(0, where.size());
    return error;
  }

  const Model model_;
  const config::LoraConfig config_;
  std::vector<Tensor> wanted_;
  std::map<std::string, std::vector<float>> values_;
  std::vector<io::NamedTensor> named_;
  const test::Scratch scratch_;
};

constexpr const char* kB = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";

TEST(AdapterFiles, NamesInAModelHaveTheNameOfTheAdapter) {
  const auto in_model = [](const std::string& name, Role role, const Selection& selection = {}) {
    return name_in_model({name, role, 3, {}}, selection, "mine");
  };
  EXPECT_EQ(in_model("m.q_proj.lora_A.weight", Role::a), "m.q_proj.lora_A.mine.weight");
  EXPECT_EQ(in_model("m.q_proj.lora_B.bias", Role::b_bias), "m.q_proj.lora_B.mine.bias");
  EXPECT_EQ(in_model("m.wte.lora_embedding_B", Role::b), "m.wte.lora_embedding_B.mine");
  EXPECT_EQ(in_model("m.q_proj.lora_magnitude_vector", Role::magnitude),
            "m.q_proj.lora_magnitude_vector.mine.weight");
  EXPECT_EQ(in_model("m.wte.token_adapter.trainable_tokens_delta", Role::tokens),
            "m.wte.token_adapter.trainable_tokens_delta.mine");
  EXPECT_EQ(in_model("m.lm_head.weight", Role::weight), "m.lm_head.modules_to_save.mine.weight");
  Selection saved;
  saved.saved = {3};
  EXPECT_EQ(in_model("m.ln_f.bias", Role::bias, saved), "m.ln_f.modules_to_save.mine.bias");
  EXPECT_EQ(in_model("m.q_proj.base_layer.bias", Role::bias), "m.q_proj.base_layer.mine.bias");
  EXPECT_EQ(table_in_model("model.embed_tokens", "mine"),
            "base_model.model.model.embed_tokens.modules_to_save.mine.weight");
}

TEST_F(BadFile, AGoodOneOpens) { EXPECT_EQ(open().second, ""); }

TEST_F(BadFile, AMissingTensorIsNamed) {
  std::erase_if(named_, [](const io::NamedTensor& tensor) { return tensor.name == kB; });
  const auto [status, message] = open();
  EXPECT_EQ(status, Status::format);
  EXPECT_TRUE(message.starts_with(fmt::format(
      "tensor {} is missing, which adapter_config.json asks for; the file has base_model.model.", kB)))
      << message;
}

// from_pretrained of transformers 5.23 and PEFT 0.21 load these.
TEST_F(BadFile, OtherPrefixesAreTheSameAdapter) {
  const std::string base = "base_model.model.", model = "model.";
  using Rename = std::function<std::string(const std::string&)>;
  const auto own = [&](const std::string& name) { return name.substr(base.size()); };
  const auto bare = [&](const std::string& name) {
    return own(name).starts_with(model) ? own(name).substr(model.size()) : own(name);
  };
  const std::vector<Rename> all = {own,
                                   bare,
                                   [&](const std::string& name) { return "base_model." + own(name); },
                                   [&](const std::string& name) { return base + bare(name); },
                                   [&](const std::string& name) { return base + model + own(name); },
                                   [&](const std::string& name) {
                                     const size_t at = name.find(".weight");
                                     return name.find(".lora_") == name.npos || at == name.npos
                                                ? name
                                                : std::string(name).insert(at, ".default");
                                   }};
  const std::vector<io::NamedTensor> before = named_;
  for (const Rename& rename : all) {
    for (size_t i = 0; i < named_.size(); ++i) named_[i].name = rename(before[i].name);
    EXPECT_EQ(open().second, "") << named_.front().name;
  }
}

TEST_F(BadFile, TheRowsOfAnEmbeddingBesideItAreFoundUnderEveryPrefix) {
  const std::vector<float> values(12);
  for (const char* const prefix : {"base_model.model.model.", "base_model.model.", "model.", ""}) {
    const std::string name = prefix + std::string("embed_tokens.weight");
    io::write_safetensors(scratch_ / "adapter_model.safetensors",
                          {{name, io::ElementType::f32, {6, 2}, values.data(), {}}});
    EXPECT_EQ(embedding_rows(scratch_.path()), 6) << name;
  }
}

TEST_F(BadFile, AnAdapterOfAnotherBaseNamesTheFirstTensor) {
  for (io::NamedTensor& tensor : named_) {
    if (tensor.name == kB) tensor.shape = {16, 4};
  }
  EXPECT_EQ(open(), std::pair(Status::format, fmt::format("tensor {} is [16, 4], and this model and "
                                                          "adapter_config.json need [32, 2]",
                                                          kB)));
}

TEST_F(BadFile, NanIsRefused) {
  values_[kB][7] = NAN;
  EXPECT_EQ(open(), std::pair(Status::format, fmt::format("tensor {} holds nan at element 7", kB)));
}

TEST_F(BadFile, AnotherTensorIsRefused) {
  const std::vector<float> more(4, 0.f);
  named_.push_back({"base_model.model.lm_head.lora_A.weight", io::ElementType::f32, {2, 2}, more.data(), {}});
  EXPECT_EQ(open(), std::pair(Status::format,
                              std::string("tensor base_model.model.lm_head.lora_A.weight is not one that "
                                          "adapter_config.json asks for in this model")));
}

TEST_F(BadFile, APickleIsNotRead) {
  base::write_file(scratch_ / "adapter_model.bin", "x");
  const auto [status, message] = test::error_of([&] { open_weights(scratch_.path(), wanted_); });
  EXPECT_EQ(status, Status::not_found);
  EXPECT_NE(message.find("adapter_model.safetensors is missing; adapter_model.bin, a pickle, is not read"),
            std::string::npos)
      << message;
}

TEST(AdapterFiles, AModelInTheCacheOfTheHubIsCalledByItsNameThere) {
  EXPECT_EQ(model_name("/home/a/hub/models--Qwen--Qwen2.5-0.5B/snapshots/0a1b"), "Qwen/Qwen2.5-0.5B");
  EXPECT_EQ(model_name("hub/models--gpt2/snapshots/0a1b/"), "gpt2");
  for (const char* path :
       {"/models/Qwen2.5-0.5B", "models--a--b", "hub/models--a--b/snapshots",
        "hub/models--a--b/snapshots/0a1b/model-Q8_0.gguf", "datasets--a--b/snapshots/0a1b"})
    EXPECT_EQ(model_name(path), path);
}

TEST(AdapterFiles, FoldersThatHoldAdaptersAreNamed) {
  const test::Scratch scratch;
  const auto error = [&] { return test::error_of([&] { read_config(scratch.path()); }); };
  EXPECT_EQ(error(), std::pair(Status::not_found,
                               scratch.path() + ": this is not an adapter: adapter_config.json is missing"));
  for (const char* const name : {"ref", "other", "empty"}) base::make_directories(scratch / name);
  for (const char* const name : {"ref", "other"})
    base::write_file(scratch / (std::string(name) + "/adapter_config.json"), "{}");
  EXPECT_TRUE(error().second.ends_with("is missing; the folders other, ref have it: give one of them"))
      << error().second;
}

TEST(AdapterFiles, TheirModelIsFound) {
  const test::Scratch scratch;
  EXPECT_FALSE(is_adapter(scratch.path()));
  base::write_file(scratch / "adapter_config.json", R"({"base_model_name_or_path": "owner/model"})");
  EXPECT_TRUE(is_adapter(scratch.path()));
  EXPECT_EQ(
      test::error_of([&] { base_model(scratch.path(), "convert.base"); }).second,
      "convert.base: the adapter " + scratch.path() +
          " belongs to the model 'owner/model' (base_model_name_or_path), which does not exist: give its "
          "model, a directory or a GGUF file");
  base::write_file(scratch / "adapter_config.json",
                   base::Json({{"base_model_name_or_path", scratch.path()}}).dump());
  EXPECT_EQ(base_model(scratch.path(), "convert.base"), scratch.path());
  base::write_file(scratch / "config.json", "{}");  // a model that has an adapter's file beside it
  EXPECT_FALSE(is_adapter(scratch.path()));
}

TEST(AdapterFiles, EndingsAreAsShortAsTheyCanBe) {
  using List = std::vector<std::string>;
  EXPECT_EQ(shortest_endings({"a.0.q", "a.1.q"}, {"a", "a.0", "a.0.k"}), List{"q"});
  EXPECT_EQ(shortest_endings({"a.0.q", "a.1.k"}, {"a.1.q"}), (List{"0.q", "k"}));
  EXPECT_EQ(shortest_endings({"m.c"}, {"n.m.c"}), List{"m.c"});  // nothing shorter tells them apart
}

}  // namespace
}  // namespace trl::adapter
