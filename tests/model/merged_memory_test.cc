// The memory that a merged adapter takes: all of it is counted, and a rehearsal has it to the byte.
#include <gtest/gtest.h>

#include "config/lora_config.h"
#include "memory/plan.h"
#include "model/model.h"
#include "support/golden.h"
#include "tensor/counting_host.h"
#include "tensor/memory/rehearsal.h"

namespace trl::model::merged_memory_test {
namespace {

using base::MemoryKind;
using config::WeightForm;

struct MergeCase {
  std::string adapter;
  std::string dtype = "float32";
  config::Quantization form = {};
};

// Bytes of weights: while an adapter is merged, and while it is merged for saving. most: of all kinds, during
// both.
struct Bytes {
  int64_t merged = 0, saving = 0, most = 0;
};

std::unique_ptr<Model> opened(const MergeCase& of) {
  auto model =
      Model::open(test::golden_path("models/qwen2"), of.dtype, nullptr, at::kCPU, Head::language, of.form);
  const base::Json config = base::parse_json(of.adapter, "test");
  model->adapters()
      .add("mine", config::read_lora_config(config, "test", Status::format), at::kFloat)
      .start(3);
  return model;
}

// taken: the bytes of weights that are held.
template <typename Taken>
Bytes merged(Model& model, const Taken& taken) {
  Adapters& adapters = model.adapters();
  Adapter& adapter = adapters.get("mine");
  tensor::trim();
  const int64_t before = taken();
  Bytes bytes;
  std::shared_ptr<void> saving = adapters.merged_to_save(adapter);
  bytes.saving = taken() - before;
  saving.reset();
  adapters.merge(adapter);
  bytes.merged = taken() - before;
  adapters.unmerge();
  EXPECT_EQ(taken(), before);
  return bytes;
}

Bytes measured(const MergeCase& of) {
  test::CountingHost host;
  tensor::trim();
  tensor::set_host(&host);
  Bytes bytes;
  {
    const auto model = opened(of);
    tensor::trim();
    const int64_t before = host.counter.now();
    host.counter.reset_peak();
    bytes = merged(*model, [&] { return host.counter.now(MemoryKind::weights); });
    bytes.most = host.counter.peak() - before;
  }
  tensor::trim();
  tensor::set_host(nullptr);
  return bytes;
}

Bytes rehearsed(const MergeCase& of) {
  const tensor::Rehearsal rehearsal;
  const auto model = opened(of);
  const auto first = static_cast<size_t>(std::ssize(rehearsal.taken()));
  const int64_t begin = std::ssize(rehearsal.events());
  Bytes bytes = merged(*model, [&] {
    int64_t held = 0;
    for (const tensor::Taken& one : rehearsal.taken())
      if (one.kind == MemoryKind::weights && one.to > std::ssize(rehearsal.events())) held += one.bytes;
    return held;
  });
  std::vector<memory::Holding> holdings;
  for (size_t i = first; i < rehearsal.taken().size(); ++i) {
    const tensor::Taken& one = rehearsal.taken()[i];
    holdings.push_back({"all", one.bytes, one.from - begin, one.to - begin});
  }
  bytes.most = memory::plan(holdings, std::ssize(rehearsal.events()) - begin, 1).peak;
  return bytes;
}

// The bytes of the numbers of all projections, in the type of the case.
int64_t numbers_of_projections(const MergeCase& of) {
  int64_t count = 0;
  const auto model = Model::open(test::golden_path("models/qwen2"), "float32");
  for (const Parameter* parameter : model->parameters())
    if (parameter->name.find("_proj.weight") != std::string::npos) count += parameter->count();
  return count * (of.dtype == "bfloat16" ? 2 : 4);
}

void expect_as_rehearsed(const MergeCase& of) {
  const Bytes real = measured(of), rehearsal = rehearsed(of);
  EXPECT_EQ(rehearsal.merged, real.merged);
  EXPECT_EQ(rehearsal.saving, real.saving);
  EXPECT_NEAR(static_cast<double>(rehearsal.most), static_cast<double>(real.most),
              0.05 * static_cast<double>(real.most));
  EXPECT_GE(real.most, real.merged);
}

constexpr const char *kLora = R"({"r": 4, "target_modules": "all-linear"})",
                     *kDora = R"({"r": 4, "target_modules": "all-linear", "use_dora": true})";

TEST(MergedMemory, IsThatOfTheWeightsThatChange) {
  TRL_NEED_GOLDEN("models/qwen2/model.safetensors");
  for (const char* adapter : {kLora, kDora}) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      SCOPED_TRACE(std::string(adapter) + dtype);
      const MergeCase of{adapter, dtype};
      expect_as_rehearsed(of);
      const Bytes real = measured(of);
      EXPECT_EQ(real.merged, real.saving);
      EXPECT_GE(real.merged, numbers_of_projections(of));
      EXPECT_LT(real.merged, 2 * numbers_of_projections(of));
    }
  }
}

// The head of this model is its embedding, and becomes a weight of its own.
TEST(MergedMemory, OfModulesAndTokensOfTheAdapter) {
  TRL_NEED_GOLDEN("models/qwen2/model.safetensors");
  for (const char* adapter :
       {R"({"r": 4, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]})",
        R"({"r": 4, "target_modules": ["q_proj", "embed_tokens"]})",
        R"({"r": 4, "target_modules": ["q_proj"], "trainable_token_indices": [4, 9]})"}) {
    SCOPED_TRACE(adapter);
    expect_as_rehearsed({adapter});
    EXPECT_GT(measured({adapter}).merged, 0);
  }
}

// Blocks stay: beside them are the numbers of a merged weight, or the adapter's factors for a save.
TEST(MergedMemory, OfWeightsInBlocks) {
  TRL_NEED_GOLDEN("models/qwen2/model.safetensors");
  for (const char* adapter : {kLora, kDora}) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      SCOPED_TRACE(std::string(adapter) + dtype);
      const MergeCase of{adapter, dtype, {WeightForm::nf4}};
      expect_as_rehearsed(of);
      const Bytes real = measured(of);
      EXPECT_GE(real.merged, numbers_of_projections(of));
      EXPECT_GT(real.saving, 0);
      EXPECT_LT(real.saving, real.merged);
    }
  }
}

}  // namespace
}  // namespace trl::model::merged_memory_test
