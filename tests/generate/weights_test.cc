// Keys that are computed again, and copies that are made anew, when weights change beside a generator.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "generate/completions.h"
#include "support/seeded_model.h"

namespace trl::generate {
namespace {

class ChangedWeights : public testing::Test {
 protected:
  model::Adapter& open(const std::string& name) {
    const base::Json json = base::parse_json(
        R"({"r": 4, "lora_alpha": 16, "init_lora_weights": false, "target_modules": ["q_proj"]})", "test");
    model::Adapter& made =
        model_->adapters().add(name, config::read_lora_config(json, "test", Status::format), at::kFloat);
    made.start(1);
    return made;
  }
  static Request request_of(const model::Adapter* adapter) {
    Request request{.ids = std::vector<int32_t>(70, 3), .sampling = {}, .adapter = adapter};
    request.sampling.max_new_tokens = 30;
    return request;
  }
  static void change(tensor::Parameter& parameter) {
    const at::NoGradGuard no_grad;
    parameter.write()->mul_(2);
  }

  const test::SeededModel seeded_{"qwen3_window"};
  const std::unique_ptr<model::Model> model_ = model::Model::open(seeded_.directory.path(), "float32");
  test::Completions got_;
};

TEST_F(ChangedWeights, DropTheKeysThatWereComputedWithThemAlone) {
  model::Adapter &own = open("own"), &other = open("other");
  const auto cache = test::cache_of(*model_, {}, 64);
  Generator generator(*model_, Limits{}, cache);
  for (const model::Adapter* const adapter : {static_cast<model::Adapter*>(nullptr), &own, &other})
    generator.add(request_of(adapter));
  const auto have_keys = [&] {
    cache->follow_weights();
    std::string all;
    for (int64_t sequence = 0; sequence < 3; ++sequence)
      all += generator.scheduler().blocks(sequence).empty() ? '-' : '+';
    return all;
  };
  generator.step(got_);
  EXPECT_EQ(have_keys(), "+++");
  open("third");
  EXPECT_EQ(have_keys(), "+++");
  model_->adapters().remove("third");
  EXPECT_EQ(have_keys(), "+++");
  change(*own.parameters()[0]);
  EXPECT_EQ(have_keys(), "+-+");
  generator.step(got_);
  EXPECT_EQ(have_keys(), "+++");
  change(*model_->parameters()[0]);
  EXPECT_EQ(have_keys(), "---");
  generator.step(got_);
  EXPECT_EQ(have_keys(), "+++");
}

// The blocks of an adapter that is closed are nobody's; while one is merged, the model's own weights are
// others.
TEST_F(ChangedWeights, OfAnAdapterThatIsClosedOrMerged) {
  model::Adapter &own = open("own"), &other = open("other");
  const auto cache = test::cache_of(*model_, {}, 64);
  Generator generator(*model_, Limits{}, cache);
  const int64_t stays = generator.add(request_of(&own)), ends = generator.add(request_of(&other));
  const auto has_keys = [&] {
    cache->follow_weights();
    return !generator.scheduler().blocks(stays).empty();
  };
  generator.step(got_);
  generator.end(ends);
  EXPECT_EQ(cache->pool->known(), 1);  // the full block
  model_->adapters().remove("other");
  EXPECT_TRUE(has_keys());
  EXPECT_EQ(cache->pool->known(), 0);
  model_->adapters().merge(own);
  EXPECT_FALSE(has_keys());
  generator.step(got_);
  EXPECT_TRUE(has_keys());
  model_->adapters().unmerge();
  EXPECT_FALSE(has_keys());
  test::run(generator, got_);
  EXPECT_EQ(got_.all[stays].ids.size(), 30u);
}

TEST_F(ChangedWeights, AreCopiedByAStepAndNotByARequest) {
  const auto cache = test::cache_of(*model_, {.narrow = model::NarrowType::int8}, 64);
  Generator generator(*model_, Limits{}, cache);
  generator.add(request_of(nullptr));
  generator.step(got_);
  const auto all = model_->parameters();
  tensor::Parameter& weight = **std::ranges::find_if(
      all, [&](const tensor::Parameter* one) { return cache->narrow()->of(one) != nullptr; });
  const at::Tensor before = cache->narrow()->of(&weight)->values().clone();
  const auto is_as_before = [&] { return at::equal(cache->narrow()->of(&weight)->values(), before); };
  change(weight);
  generator.add(request_of(nullptr));
  EXPECT_TRUE(is_as_before());
  generator.step(got_);
  EXPECT_FALSE(is_as_before());
}

}  // namespace
}  // namespace trl::generate
