// A second model over the weights of a first one, of every family: it computes the same, and needs nothing of
// the first.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "model/adapter/versions.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/seeded_model.h"

namespace trl::model {
namespace {

class TwinOf : public testing::TestWithParam<std::string> {
 protected:
  TwinOf() : model_(Model::open(seeded_.directory.path(), "float32")) {}
  static at::Tensor states_of(const Model& model, const Adapter* adapter = nullptr) {
    const at::NoGradGuard no_grad;
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 40; ++i) ids.push_back((i * 7 + i / 3) % 96);
    ForwardOptions options;
    options.adapter = adapter;
    return model.forward(test::forward_input({ids}), options).hidden;
  }

  const test::SeededModel seeded_{GetParam()};
  std::unique_ptr<Model> model_;
};

TEST_P(TwinOf, ComputesTheSameAndOutlivesIt) {
  const at::Tensor states = states_of(*model_);
  const std::unique_ptr<Model> twin = model_->twin();
  for (size_t i = 0; i < model_->parameters().size(); ++i) {
    Parameter &one = *model_->parameters()[i], &other = *twin->parameters()[i];
    EXPECT_EQ(one.name, other.name);
    if (one.encoded() == nullptr) {
      EXPECT_EQ(one.read()->data_ptr(), other.read()->data_ptr()) << one.name;  // in memory once
    }
  }
  for (Parameter* const parameter : model_->parameters()) parameter->begin_training_in(std::nullopt);
  EXPECT_EQ(twin->frozen_layers(), 0);
  for (Parameter* const parameter : model_->parameters()) parameter->end_training();
  model_.reset();
  EXPECT_TRUE(at::equal(states_of(*twin), states));
}

INSTANTIATE_TEST_SUITE_P(Recorded, TwinOf, testing::ValuesIn(test::family_cases(false)),
                         [](const auto& instance) { return instance.param; });

TEST(Twin, ComputesWithTheVersionThatWasPublishedLast) {
  const test::SeededModel seeded("mistral_window");
  const auto model = Model::open(seeded.directory.path(), "float32");
  config::LoraConfig lora;
  lora.target_modules = config::ModuleNames{{"q_proj", "v_proj"}, {}};
  Adapter& trained = model->adapters().add("default", lora, at::kFloat);
  const auto fill = [&](double value) {
    for (Parameter* const parameter : trained.parameters()) parameter->write()->fill_(value);
  };
  fill(0.5);
  const auto twin = model->twin();
  AdapterVersions versions(*twin, trained, 2, 7);
  const auto unused = [](const Adapter&) { return false; };
  const auto used = [](const Adapter&) { return true; };
  const auto value = [](const Adapter& adapter) {
    return adapter.parameters().front()->read()->flatten()[0].item<float>();
  };
  const Adapter* const first = &versions.newest(unused);
  EXPECT_EQ(versions.version_of(first), 7);
  fill(1.5);
  EXPECT_EQ(value(versions.newest(unused)), 0.5f);  // not published
  versions.publish(8);
  EXPECT_EQ(&versions.newest(used), first);  // no copy is free
  EXPECT_EQ(value(*first), 0.5f);
  fill(2.5);
  versions.publish(9);
  const Adapter* const second = &versions.newest(unused);
  EXPECT_NE(second, first);
  EXPECT_EQ(versions.version_of(second), 9);
  EXPECT_EQ(value(*second), 2.5f);
  EXPECT_EQ(value(*first), 0.5f);
  versions.publish(10);  // nothing has changed
  EXPECT_EQ(&versions.newest(unused), second);
  EXPECT_EQ(versions.version_of(second), 9);
  EXPECT_EQ(versions.version_of(&trained), -1);
}

}  // namespace
}  // namespace trl::model
