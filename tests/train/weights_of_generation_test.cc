// Generation beside a run reads the weights that are trained: no step copies one, and the next token sees it.
#include <ATen/core/grad_mode.h>

#include "config/lora_config.h"
#include "generate/completions.h"
#include "model/decoding/narrow_weights.h"
#include "train/tiny_run.h"

namespace trl::train::weights_of_generation_test {
namespace {

using base::MemoryKind;

const model::Adapter* add_adapter(model::Model& model) {
  const base::Json json = base::parse_json(
      R"({"r": 4, "lora_alpha": 16, "init_lora_weights": false, "target_modules": "all-linear"})", "test");
  model::Adapter& made =
      model.adapters().add("default", config::read_lora_config(json, "test", Status::format), at::kFloat);
  made.start(3);
  model.train_only(made);
  return &made;
}

std::vector<tensor::Parameter*> parameters_of(model::Model& model) {
  const model::Adapter* const adapter = model.adapters().find("default");
  return adapter != nullptr ? adapter->parameters() : model.parameters();
}

generate::Request request_of(const std::vector<int32_t>& ids, int64_t tokens, const model::Adapter* adapter) {
  generate::Request request{.ids = ids, .sampling = {}, .adapter = adapter};
  request.sampling.max_new_tokens = tokens;
  request.sampling.log_probabilities = true;
  return request;
}

// Another model with the same numbers.
class Twin {
 public:
  explicit Twin(model::Model& of, bool adapts)
      : model_(model::Model::open(test::golden_path("models/qwen2"), "float32")),
        adapter_(adapts ? add_adapter(*model_) : nullptr) {
    const at::NoGradGuard no_grad;
    const std::vector<tensor::Parameter*> from = parameters_of(of), to = parameters_of(*model_);
    EXPECT_EQ(to.size(), from.size());
    for (size_t i = 0; i < to.size(); ++i) to[i]->write()->copy_(*from[i]->read());
  }
  // Returns the log-probability of its next token.
  float next(const std::vector<int32_t>& ids) const {
    const at::NoGradGuard no_grad;
    return test::alone(*model_, at::kFloat, request_of(ids, 1, adapter_)).at(0).whole.at(0);
  }

 private:
  const std::unique_ptr<model::Model> model_;
  const model::Adapter* const adapter_;
};

class WeightsOfGeneration : public testing::TestWithParam<bool> {};

TEST_P(WeightsOfGeneration, AreTheTrainersOwn) {
  TRL_NEED_TINY_RUN();
  const bool adapts = GetParam();
  test::SftRun run = test::tiny_run({{"max_steps", "3"}, {"learning_rate", "1e-2"}});
  const model::Adapter* const adapter = adapts ? add_adapter(run.model()) : nullptr;
  Trainer& trainer = run.start();
  generate::Generator generator(run.model(), generate::Limits{}, test::cache_of(run.model(), {}, 16));
  const std::vector<int32_t> prompt = {5, 6, 7, 8};
  base::MemoryCounter& memory = test::memory();
  const auto step = [&](test::Completions& got) {
    const at::NoGradGuard no_grad;
    const int64_t held = memory.now(MemoryKind::weights);
    memory.reset_peak();
    EXPECT_TRUE(generator.step(got));
    EXPECT_EQ(memory.peak(MemoryKind::weights), held);
    EXPECT_EQ(memory.now(MemoryKind::weights), held);
  };
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    test::Completions got;
    const int64_t sequence = generator.add(request_of(prompt, 2, adapter));
    step(got);
    const test::Completion& one = got.all[sequence];
    ASSERT_EQ(one.ids.size(), 1u);
    const std::vector<int32_t> longer = {5, 6, 7, 8, one.ids[0]};
    const float before = Twin(run.model(), adapts).next(longer);
    ASSERT_TRUE(trainer.step());
    while (one.ids.size() < 2 && !HasFailure()) step(got);  // the keys of the prompt are computed again
    ASSERT_EQ(one.ids.size(), 2u);
    EXPECT_EQ(one.whole[1], Twin(run.model(), adapts).next(longer));
    EXPECT_NE(one.whole[1], before);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, WeightsOfGeneration, testing::Values(false, true),
                         [](const auto& own) { return own.param ? "AnAdapter" : "AllWeights"; });

// Copies are counted: the test above would see one.
TEST(CopiesOfGeneration, AreCountedAsWeights) {
  TRL_NEED_TINY_RUN();
  test::memory();
  const auto model = model::Model::open(test::golden_path("models/qwen2"), "float32");
  const int64_t before = test::memory().now(MemoryKind::weights);
  const generate::CacheKind kind{.narrow = model::narrow_type("int8")};
  const auto cache = test::cache_of(*model, kind, 16);
  EXPECT_GT(test::memory().now(MemoryKind::weights), before);
}

}  // namespace
}  // namespace trl::train::weights_of_generation_test
