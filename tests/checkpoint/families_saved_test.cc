// A model of every recorded family, saved: its files have the names, shapes and values that transformers
// gives them, and opening them gives the same model.
#include <gtest/gtest.h>

#include "checkpoint/save.h"
#include "support/seeded_model.h"

namespace trl::checkpoint {
namespace {

class SavedFamilies : public testing::TestWithParam<std::string> {};

TEST_P(SavedFamilies, FilesAreThoseOfTransformers) {
  const test::SeededModel seeded(GetParam());
  const auto model = model::Model::open(seeded.directory.path(), "float32");
  const test::Scratch saved;
  save_model(saved / "model", *model, {});
  const io::Safetensors file(saved / "model/model.safetensors");
  EXPECT_EQ(file.tensors().size(), seeded.tensors.size());
  for (const test::SeededTensor& tensor : seeded.tensors) {
    SCOPED_TRACE(tensor.name);
    ASSERT_TRUE(file.tensors().contains(tensor.name));
    const io::TensorView& view = file.tensors().at(tensor.name);
    EXPECT_EQ(view.type, io::ElementType::f32);
    EXPECT_EQ(view.shape, tensor.shape);
    ASSERT_EQ(view.bytes, tensor.values.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(view.data, tensor.values.data(), view.bytes), 0);
  }
  const auto again = model::Model::open(saved / "model", "float32");
  const auto before = model->parameters(), after = again->parameters();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i]->name, after[i]->name);
    EXPECT_TRUE(at::equal(*before[i]->read(), *after[i]->read())) << before[i]->name;
  }
}

// One by one, as a host reads them.
TEST_P(SavedFamilies, TensorsAreThoseOfTransformers) {
  const test::SeededModel seeded(GetParam());
  const auto model = model::Model::open(seeded.directory.path(), "float32");
  EXPECT_EQ(saved_tensors(*model).size(), seeded.tensors.size());
  EXPECT_FALSE(find_saved(*model, "model.none.weight"));
  for (const test::SeededTensor& tensor : seeded.tensors) {
    SCOPED_TRACE(tensor.name);
    const std::optional<SavedTensor> found = find_saved(*model, tensor.name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->name(), tensor.name);
    EXPECT_EQ(found->shape(), tensor.shape);
    EXPECT_EQ(found->type(), io::ElementType::f32);
    const at::Tensor copy = copy_of(*found);
    EXPECT_TRUE(copy.is_contiguous());
    ASSERT_EQ(copy.nbytes(), tensor.values.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(copy.data_ptr(), tensor.values.data(), copy.nbytes()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, SavedFamilies, testing::ValuesIn(test::family_cases(false)),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace trl::checkpoint
