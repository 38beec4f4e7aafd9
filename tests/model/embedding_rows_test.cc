// Embeddings with more or fewer rows. New rows beside transformers':
// tests/capi/engine/template_model_test.cc.
#include "model/weights/initial_values.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "model/model.h"
#include "support/golden.h"

namespace trl::model {
namespace {

at::Tensor counting(int64_t rows, int64_t hidden) {
  return at::arange(rows * hidden, at::kFloat).reshape({rows, hidden}).sin();
}

TEST(EmbeddingRows, FewerAreTheFirst) {
  const at::Tensor weight = counting(40, 8);
  EXPECT_TRUE(at::equal(EmbeddingRows(24, at::detail::createCPUGenerator(42)).embedding(weight),
                        weight.slice(0, 0, 24)));
}

TEST(EmbeddingRows, NewOnesAreDrawnBySeed) {
  const at::Tensor weight = at::randn({4200, 8}) + 1;
  const at::Tensor grown = EmbeddingRows(4300, at::detail::createCPUGenerator(42)).embedding(weight);
  EXPECT_TRUE(at::equal(grown.slice(0, 0, 4200), weight));
  EXPECT_TRUE(at::equal(grown, EmbeddingRows(4300, at::detail::createCPUGenerator(42)).embedding(weight)));
  EXPECT_FALSE(at::equal(grown, EmbeddingRows(4300, at::detail::createCPUGenerator(43)).embedding(weight)));
  const at::Tensor noise = grown.slice(0, 4200) - weight.mean(0);
  EXPECT_LT(noise.abs().max().item<float>(), 3e-4f);  // their deviation is 3e-5
  EXPECT_NEAR(noise.std().item<float>(), 3.16e-5, 4e-6);
}

TEST(EmbeddingRows, WithoutACovarianceTheyAreTheMean) {
  const at::Tensor weight = counting(4, 8);  // of rank 3 at most
  const at::Tensor grown = EmbeddingRows(6, at::detail::createCPUGenerator(42)).embedding(weight);
  for (int64_t row = 4; row < 6; ++row) EXPECT_TRUE(at::allclose(grown[row], weight.mean(0), 1e-6, 1e-7));
}

TEST(EmbeddingRows, OfAModelKeepItsHeadTiedAndForgetAPaddingRowThatGoes) {
  TRL_NEED_GOLDEN("models/qwen2/model.safetensors");
  const auto model = Model::open(test::golden_path("models/qwen2"), "float32");
  EXPECT_EQ(model->head().padding_row, 473);
  model->resize_embeddings(400);
  EXPECT_EQ(model->config().vocab_size, 400);
  EXPECT_EQ(model->config_json()["vocab_size"], 400);
  EXPECT_EQ(model->head().size(0), 400);
  EXPECT_EQ(model->head().padding_row, -1);
  const auto apart = Model::open(test::golden_path("models/qwen3"), "float32");
  apart->resize_embeddings(576);
  EXPECT_EQ(apart->parameters().front()->size(0), 576);
  EXPECT_EQ(apart->head().size(0), 576);
  EXPECT_FALSE(at::equal(*apart->parameters().front()->read(), *apart->head().read()));
}

// Only the head, and an embedding that is tied to it, gets float32 values.
TEST(WideHead, HasTheSameValues) {
  for (const char* const name : {"models/qwen2", "models/qwen3"}) {
    TRL_NEED_GOLDEN(std::string(name) + "/model.safetensors");
    const auto narrow = Model::open(test::golden_path(name), "bfloat16"),
               wide = Model::open(test::golden_path(name), "bfloat16");
    wide->widen_head();
    EXPECT_EQ(wide->dtype(), at::kBFloat16);
    for (size_t i = 0; i < wide->parameters().size(); ++i) {
      tensor::Parameter* const own = wide->parameters()[i];
      EXPECT_EQ(own->dtype(), own == &wide->head() ? at::kFloat : at::kBFloat16) << own->name;
      EXPECT_TRUE(at::equal(own->read()->to(at::kFloat), narrow->parameters()[i]->read()->to(at::kFloat)));
    }
    wide->widen_head();
    EXPECT_EQ(wide->head().dtype(), at::kFloat);
  }
}

}  // namespace
}  // namespace trl::model
