// The same weights under the other names that files have: they open as the same model, and are saved under
// the names that they came with.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "model/golden_batch.h"
#include "model/model.h"
#include "support/seeded_model.h"

namespace trl::model {
namespace {

struct Renaming {
  const char* family;
  std::vector<std::pair<std::string, std::string>> prefixes;  // of the case's names, and of the other ones
  const char* first;                                          // the embedding, by the other names
};

std::string renamed(const std::string& name, const Renaming& renaming) {
  for (const auto& [from, to] : renaming.prefixes) {
    if (name.starts_with(from)) return to + name.substr(from.size());
  }
  return name;
}

TEST(Prefixes, OtherNamesAreTheSameModel) {
  const Renaming all[] = {{"gemma3",
                           {{"language_model.model.", "model.language_model."},
                            {"vision_tower.", "model.vision_tower."},
                            {"multi_modal_projector.", "model.multi_modal_projector."}},
                           "model.language_model.embed_tokens.weight"},
                          {"gpt2", {{"transformer.", ""}}, "wte.weight"},
                          {"gpt_neox", {{"lm_head.", "embed_out."}}, "gpt_neox.embed_in.weight"}};
  const at::NoGradGuard no_grad;
  const ForwardInput input = test::forward_input({{3, 4, 5, 6}});
  for (const Renaming& renaming : all) {
    SCOPED_TRACE(renaming.family);
    const test::SeededModel seeded(renaming.family);
    const auto model = Model::open(seeded.directory.path(), "float32");
    std::vector<io::NamedTensor> tensors;
    for (const test::SeededTensor& tensor : seeded.tensors)
      tensors.push_back(
          {renamed(tensor.name, renaming), io::ElementType::f32, tensor.shape, tensor.values.data()});
    io::write_safetensors(seeded.directory / "model.safetensors", tensors);
    const auto other = Model::open(seeded.directory.path(), "float32");
    EXPECT_EQ(other->parameters().front()->name, renaming.first);
    EXPECT_TRUE(at::equal(other->forward(input, {}).hidden, model->forward(input, {}).hidden));
    EXPECT_EQ(other->carried().size(), model->carried().size());
    EXPECT_EQ(model->carried().empty(), std::string(renaming.family) != "gemma3");
  }
}

}  // namespace
}  // namespace trl::model
