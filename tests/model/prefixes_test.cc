// The same weights under the other names that from_pretrained accepts (transformers 5.23: rename_source_key
// and the key mappings of the families): they open as the same model, and are saved under the names that they
// came with.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "model/config/families.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/error_of.h"
#include "support/seeded_model.h"

namespace trl::model {
namespace {

using Rename = std::function<std::string(const std::string&)>;

std::string stripped(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

std::string replaced(std::string name, const std::string& from, const std::string& to) {
  const size_t at = name.find(from);
  return at == name.npos ? name : name.replace(at, from.size(), to);
}

void write(const test::SeededModel& seeded, const Rename& rename, const std::string& file) {
  std::vector<io::NamedTensor> tensors;
  for (const test::SeededTensor& tensor : seeded.tensors)
    tensors.push_back({rename(tensor.name), io::ElementType::f32, tensor.shape, tensor.values.data()});
  io::write_safetensors(seeded.directory / file, tensors);
}

at::Tensor hidden(Model& model) {
  const at::NoGradGuard no_grad;
  return model.forward(test::forward_input({{3, 4, 5, 6}}), {}).hidden;
}

void expect_same(const test::SeededModel& seeded, const at::Tensor& want, const Rename& rename) {
  write(seeded, rename, "model.safetensors");
  const auto other = Model::open(seeded.directory.path(), "float32");
  EXPECT_TRUE(at::equal(hidden(*other), want));
}

TEST(Layouts, OfEveryFamilyWithoutThePrefixAndWithOneMore) {
  for (const char* name : {"cohere",         "gemma",     "gemma2",       "gemma3_text", "glm",
                           "glm4",           "gpt2",      "gpt_neox",     "granite",     "llama_bias_linear",
                           "mistral_window", "mixtral",   "olmo2",        "phi3",        "qwen2_moe",
                           "qwen2_window",   "qwen3_moe", "qwen3_window", "smollm3",     "stablelm"}) {
    SCOPED_TRACE(name);
    const test::SeededModel seeded(name);
    const auto model = Model::open(seeded.directory.path(), "float32");
    const at::Tensor want = hidden(*model);
    const std::string& first = model->parameters().front()->name;
    const std::string prefix = first.substr(0, first.find('.') + 1);
    expect_same(seeded, want, [&](const std::string& own) { return stripped(own, prefix); });
    expect_same(seeded, want, [&](const std::string& own) { return prefix + own; });
  }
}

struct Renaming {
  const char* family;
  std::vector<std::pair<std::string, std::string>> prefixes;  // of the case's names, and of the other ones
  const char* first;                                          // the embedding, by the other names
};

TEST(Layouts, OtherPrefixesAreTheSameModel) {
  const Renaming all[] = {
      {"gemma3",
       {{"language_model.model.", "model.language_model."},
        {"vision_tower.", "model.vision_tower."},
        {"multi_modal_projector.", "model.multi_modal_projector."}},
       "model.language_model.embed_tokens.weight"},
      {"gemma3", {{"language_model.model.", "language_model."}}, "language_model.embed_tokens.weight"},
      {"gpt2", {{"transformer.", ""}}, "wte.weight"},
      {"gpt_neox", {{"lm_head.", "embed_out."}}, "gpt_neox.embed_in.weight"},
      {"gpt_neox", {{"gpt_neox.", ""}, {"lm_head.", "embed_out."}}, "embed_in.weight"}};
  for (const Renaming& renaming : all) {
    SCOPED_TRACE(renaming.first);
    const test::SeededModel seeded(renaming.family);
    const auto model = Model::open(seeded.directory.path(), "float32");
    const at::Tensor want = hidden(*model);
    expect_same(seeded, want, [&](const std::string& name) {
      for (const auto& [from, to] : renaming.prefixes) {
        if (name.starts_with(from)) return to + name.substr(from.size());
      }
      return name;
    });
    const auto other = Model::open(seeded.directory.path(), "float32");
    EXPECT_EQ(other->parameters().front()->name, renaming.first);
    EXPECT_EQ(other->carried().size(), model->carried().size());
    EXPECT_EQ(model->carried().empty(), std::string(renaming.family) != "gemma3");
  }
}

// In memory, transformers has all experts of a layer in one tensor, gate above up, and so has a file that was
// written of its state.
TEST(Layouts, ExpertsInOneTensor) {
  for (const char* name : {"mixtral", "qwen2_moe", "qwen3_moe"}) {
    SCOPED_TRACE(name);
    const test::SeededModel seeded(name);
    const auto model = Model::open(seeded.directory.path(), "float32");
    const at::Tensor want = hidden(*model);
    const bool mixtral = std::string(name) == "mixtral";
    const auto own_name = [](const std::string& own) { return replaced(own, ".block_sparse_moe.", ".mlp."); };
    if (mixtral) expect_same(seeded, want, own_name);
    std::vector<at::Tensor> kept;
    std::vector<io::NamedTensor> tensors;
    for (const test::SeededTensor& tensor : seeded.tensors) {
      if (tensor.name.find(".experts.") == std::string::npos)
        tensors.push_back({own_name(tensor.name), io::ElementType::f32, tensor.shape, tensor.values.data()});
    }
    for (Parameter* parameter : model->parameters()) {
      if (parameter->shape().size() != 3) continue;
      kept.push_back(*parameter->read());
      tensors.push_back({own_name(parameter->name), io::ElementType::f32, kept.back().sizes().vec(),
                         kept.back().data_ptr()});
    }
    ASSERT_FALSE(kept.empty());
    io::write_safetensors(seeded.directory / "model.safetensors", tensors);
    EXPECT_TRUE(at::equal(hidden(*Model::open(seeded.directory.path(), "float32")), want));
  }
}

TEST(Layouts, ConfigMayNameTheFileOfWeights) {
  const test::SeededModel seeded("qwen3_window");
  const at::Tensor want = hidden(*Model::open(seeded.directory.path(), "float32"));
  std::filesystem::rename(seeded.directory / "model.safetensors", seeded.directory / "other.safetensors");
  const auto open = [&] { Model::open(seeded.directory.path(), "float32"); };
  EXPECT_EQ(
      test::error_of(open).second,
      seeded.directory.path() +
          ": holds neither model.safetensors nor model.safetensors.index.json; it has other.safetensors");
  base::Json config = base::read_json_file(seeded.directory / "config.json");
  for (const auto& [named, message] :
       {std::pair<const char*, const char*>{"other.safetensors", ""},
        {"third.safetensors",
         ": third.safetensors is missing, which \"transformers_weights\" of config.json names"},
        {"../other.safetensors",
         ": \"transformers_weights\": ../other.safetensors is neither a .safetensors file in the "
         "directory nor an index of some"}}) {
    config["transformers_weights"] = named;
    base::write_file(seeded.directory / "config.json", config.dump());
    const std::string got = test::error_of(open).second;
    EXPECT_EQ(got, *message == '\0' ? "" : seeded.directory.path() + message);
  }
}

TEST(Layouts, AMissingTensorIsToldWithThoseThatAreThere) {
  const test::SeededModel seeded("qwen3_window");
  write(
      seeded, [](const std::string& name) { return "encoder." + name; }, "model.safetensors");
  const std::string message = test::error_of([&] { Model::open(seeded.directory.path(), "float32"); }).second;
  EXPECT_NE(message.find("tensor model.embed_tokens.weight is missing; the files have "
                         "encoder.model.embed_tokens.weight, encoder."),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace trl::model
