// Decoding with copies of the weights in fewer bits.
#include "model/decoding/narrow_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "config/lora_config.h"
#include "kernels/compare.h"
#include "kernels/path.h"
#include "model/model.h"
#include "model/seeded_runs.h"
#include "support/sequence.h"
#include "tensor/counting_host.h"

namespace trl::model {
namespace {

using test::same_bits;

constexpr NarrowType kTypes[] = {NarrowType::bfloat16, NarrowType::int8, NarrowType::int4};

double relative_error(const at::Tensor& got, const at::Tensor& want) {
  return (got - want).norm().item<double>() / want.norm().item<double>();
}

// The relative error of one product: that of the copies, and with codes that of the rows too, whose steps are
// 1 / 127 of the largest of 32 values, 2.2 standard deviations of normal ones, and which are off by a uniform
// part of a step: 2.2 / 127 / sqrt(12).
double product_error(const NarrowWeights& narrow) {
  return std::hypot(narrow.errors().mean, narrow.type() == NarrowType::bfloat16 ? 0 : 0.005);
}

// Logits of the last tokens of some sequences, computed in one call after all before them in another.
struct Decoding {
  const Model& model;
  const NarrowWeights* narrow;
  at::ScalarType compute = at::kFloat;
  std::optional<const Adapter*> adapter = {};

  at::Tensor logits(const std::vector<std::vector<int32_t>>& sequences) const {
    KvMemory memory = model.kv_memory(compute);
    SequenceRows begin, end;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const std::vector<int32_t>& ids = sequences[i];
      const int64_t last = std::ssize(ids) - 1;
      const std::vector<at::Tensor> blocks = {memory.block(static_cast<int32_t>(i))};
      begin.ids.insert(begin.ids.end(), ids.begin(), ids.end() - 1);
      begin.runs.emplace_back(last, 0).blocks = blocks;
      end.ids.push_back(ids.back());
      end.runs.emplace_back(1, last).blocks = blocks;
      end.wanted.push_back(static_cast<int64_t>(i));
    }
    for (SequenceRows* const rows : {&begin, &end})
      for (SequenceRows::Run& run : rows->runs) run.adapter = adapter;
    model.extend(begin, compute, narrow);
    return model.logits(model.extend(end, compute, narrow), compute);
  }
};

std::vector<std::vector<int32_t>> sequences(int64_t count) {
  std::vector<std::vector<int32_t>> all;
  for (int64_t i = 0; i < count; ++i) {
    all.emplace_back();
    for (int64_t t = 0; t < 3 + i % 5; ++t)
      all.back().push_back(static_cast<int32_t>(5 + (7 * i + 3 * t) % 60));
  }
  return all;
}

class NarrowFamilies : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Model> open() const { return Model::open(seeded_.directory.path(), "float32"); }

 private:
  const test::SeededModel seeded_{GetParam()};
};

TEST_P(NarrowFamilies, LogitsAreNearThoseOfTheWeights) {
  const auto model = open();
  const auto all = sequences(9);
  const at::Tensor want = Decoding{*model, nullptr}.logits(all);
  double before = 0;
  for (const NarrowType type : kTypes) {
    const NarrowWeights narrow = model->narrow_weights(type, true);
    EXPECT_GT(narrow.errors().mean, 0);
    EXPECT_GE(narrow.errors().largest, narrow.errors().mean);
    const double error = relative_error(Decoding{*model, &narrow}.logits(all), want);
    EXPECT_GT(error, before) << narrow.summary();
    EXPECT_LT(error, 8 * product_error(narrow)) << narrow.summary();
    before = error;
  }
}

TEST_P(NarrowFamilies, ASequenceHasTheSameBitsAloneAndInABatch) {
  const auto model = open();
  const auto all = sequences(9);
  for (const NarrowType type : kTypes) {
    const NarrowWeights narrow = model->narrow_weights(type, true);
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      const Decoding decoding{*model, &narrow, compute};
      const at::Tensor together = decoding.logits(all);
      for (int64_t i = 0; i < std::ssize(all); ++i) {
        EXPECT_TRUE(same_bits(decoding.logits({all[static_cast<size_t>(i)]})[0], together[i]))
            << narrow.summary() << ", " << i;
      }
    }
  }
}

TEST_P(NarrowFamilies, ThePlainPathComputesTheSame) {
  const auto model = open();
  const auto all = sequences(9);
  for (const NarrowType type : kTypes) {
    const NarrowWeights narrow = model->narrow_weights(type, true);
    const Decoding decoding{*model, &narrow};
    const at::Tensor fused = decoding.logits(all);
    const kernels::PathScope scope(kernels::Path::plain);
    const at::Tensor plain = decoding.logits(all);
    std::vector<double> errors;
    for (int64_t row = 0; row < plain.size(0); ++row)
      errors.push_back(relative_error(plain[row], fused[row]));
    std::ranges::sort(errors);
    // In a few rows a number between two steps is rounded the other way.
    EXPECT_LT(errors[errors.size() / 2], 0.03 * narrow.errors().mean) << narrow.summary();
    EXPECT_LT(errors.back(), 4 * product_error(narrow)) << narrow.summary();
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, NarrowFamilies, testing::ValuesIn(test::family_cases(false)),
                         [](const auto& instance) { return instance.param; });

class NarrowWeightsTest : public testing::Test {
 protected:
  static std::string tiny(const char* name) { return test::golden_path(std::string("models/") + name); }
};

TEST_F(NarrowWeightsTest, AreMadeOfProjectionsAndTheHeadUnlessItIsExcluded) {
  TRL_NEED_GOLDEN("models/llama3");
  const auto model = Model::open(tiny("llama3"), "float32");
  for (const bool head : {false, true}) {
    const NarrowWeights narrow = model->narrow_weights(NarrowType::int8, head);
    for (Parameter* parameter : model->parameters()) {
      const std::string& name = parameter->name;
      const bool copied = name.find("_proj.weight") != name.npos || (head && parameter == &model->head());
      EXPECT_EQ(narrow.of(parameter) != nullptr, copied) << name;
    }
  }
}

TEST_F(NarrowWeightsTest, TheLookupOfATiedEmbeddingIsExact) {
  TRL_NEED_GOLDEN("models/qwen2");
  const auto model = Model::open(tiny("qwen2"), "float32");
  ASSERT_EQ(model->head().name, "model.embed_tokens.weight");
  const auto all = sequences(3);
  const NarrowWeights with = model->narrow_weights(NarrowType::int4, true);
  const NarrowWeights without = model->narrow_weights(NarrowType::int4, false);
  const auto hidden = [&](const NarrowWeights& narrow) {
    KvMemory memory = model->kv_memory(at::kFloat);
    SequenceRows rows{all[0], {{std::ssize(all[0]), 0}}, {0, 1}};
    rows.runs[0].blocks = {memory.block(0)};
    return model->extend(rows, at::kFloat, &narrow);
  };
  const Output a = hidden(with), b = hidden(without);
  EXPECT_TRUE(same_bits(a.hidden, b.hidden));
  EXPECT_NE(a.head.narrow, nullptr);
  EXPECT_EQ(b.head.narrow, nullptr);
}

TEST_F(NarrowWeightsTest, FollowTheWeightsWhenRefreshed) {
  TRL_NEED_GOLDEN("models/llama3");
  const auto model = Model::open(tiny("llama3"), "float32");
  const auto all = sequences(5);
  for (const NarrowType type : kTypes) {
    NarrowWeights narrow = model->narrow_weights(type, true);
    const Decoding decoding{*model, &narrow};
    const at::Tensor before = decoding.logits(all);
    narrow.refresh();
    EXPECT_TRUE(same_bits(decoding.logits(all), before));
    for (Parameter* parameter : model->parameters())
      if (parameter->shape().size() == 2) parameter->write()->mul_(1.5);
    narrow.refresh();
    const at::Tensor after = decoding.logits(all);
    EXPECT_FALSE(same_bits(after, before));
    const NarrowWeights fresh = model->narrow_weights(type, true);
    EXPECT_TRUE(same_bits(Decoding{*model, &fresh}.logits(all), after));
  }
}

// Its terms and its own head are used as they are.
TEST_F(NarrowWeightsTest, AnAdapterIsExactOnTopOfThem) {
  TRL_NEED_GOLDEN("models/llama3");
  const auto model = Model::open(tiny("llama3"), "float32");
  const base::Json config = base::parse_json(
      R"({"r": 2, "target_modules": ["q_proj", "down_proj"], "modules_to_save": ["lm_head"]})", "test");
  Adapter& adapter =
      model->adapters().add("default", config::read_lora_config(config, "test", Status::format), at::kFloat);
  adapter.start(1);
  for (Parameter* parameter : adapter.parameters()) parameter->write()->add_(0.1);
  const auto all = sequences(5);
  const at::Tensor want = Decoding{*model, nullptr, at::kFloat, &adapter}.logits(all);
  for (const NarrowType type : kTypes) {
    const NarrowWeights narrow = model->narrow_weights(type, true);
    const Decoding decoding{*model, &narrow, at::kFloat, &adapter};
    EXPECT_LT(relative_error(decoding.logits(all), want), 8 * product_error(narrow)) << narrow.summary();
    EXPECT_NE(narrow.of(&model->head()), nullptr);
    EXPECT_EQ(narrow.of(model->head_with(&adapter).weight), nullptr);
  }
}

TEST_F(NarrowWeightsTest, AreCountedAsWeights) {
  TRL_NEED_GOLDEN("models/llama3");
  test::CountingHost host;
  tensor::set_host(&host);
  {
    const auto model = Model::open(tiny("llama3"), "float32");
    const int64_t before = host.counter.now();
    const NarrowWeights narrow = model->narrow_weights(NarrowType::int8, true);
    EXPECT_EQ(host.counter.now() - before, narrow.bytes());
    EXPECT_GT(narrow.bytes(), 0);
  }
  tensor::set_host(nullptr);
}

TEST_F(NarrowWeightsTest, NumbersOfTheirOwnTypeAreNotCopied) {
  TRL_NEED_GOLDEN("models/llama3");
  const auto model = Model::open(tiny("llama3"), "bfloat16");
  EXPECT_EQ(model->narrow_weights(NarrowType::bfloat16, true).bytes(), 0);
  EXPECT_GT(model->narrow_weights(NarrowType::int8, true).bytes(), 0);
}

TEST_F(NarrowWeightsTest, TheSummaryHasNoErrorOfExactCopies) {
  TRL_NEED_GOLDEN("models/qwen2_bf16");
  const auto model = Model::open(tiny("qwen2_bf16"), "float32");
  NarrowWeights same = model->narrow_weights(NarrowType::bfloat16, true);
  same.refresh();
  const std::string exact = same.summary();
  EXPECT_TRUE(exact.ends_with(" MB, without an error")) << exact;
  NarrowWeights codes = model->narrow_weights(NarrowType::int8, true);
  codes.refresh();
  EXPECT_NE(codes.summary().find("for an output of model.layers."), std::string::npos) << codes.summary();
}

TEST_F(NarrowWeightsTest, ATypeHasAName) {
  EXPECT_EQ(narrow_type("bfloat16"), NarrowType::bfloat16);
  EXPECT_EQ(narrow_type("int8"), NarrowType::int8);
  EXPECT_EQ(narrow_type("int4"), NarrowType::int4);
  EXPECT_FALSE(narrow_type("int2"));
}

}  // namespace
}  // namespace trl::model
