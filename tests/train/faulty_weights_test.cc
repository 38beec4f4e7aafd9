// Numbers that are not finite are found in weights of every form.
#include "train/scoring/weights_digest.h"

#include <limits>

#include "checkpoint/save.h"
#include "support/error_of.h"
#include "train/evaluator.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

tensor::Parameter& named(model::Model& model, std::string_view name) {
  for (tensor::Parameter* p : model.all_parameters())
    if (p->name == name) return *p;
  throw std::runtime_error("there is no such weight");
}

std::unique_ptr<model::Model> opened(const char* dtype, const config::Quantization& quantization = {}) {
  return model::Model::open(test::golden_path("models/qwen2"), dtype, nullptr, at::kCPU,
                            model::Head::language, quantization);
}

// Zeros, but for one element.
class OneNan final : public tensor::Encoded {
 public:
  OneNan(at::IntArrayRef shape, int64_t row, int64_t column)
      : Encoded(shape.vec()), row_(row), column_(column) {}
  std::string form() const override { return "zeros"; }
  int64_t unit() const override { return 1; }
  void decode(const tensor::Part2d& part, at::ScalarType, void* to, int64_t stride) const noexcept override {
    for (int64_t row = 0; row < part.rows; ++row) {
      for (int64_t column = 0; column < part.columns; ++column) {
        const bool here = part.row + row == row_ && part.column + column == column_;
        static_cast<float*>(to)[row * stride + column] = here ? std::nanf("") : 0.0f;
      }
    }
  }

 private:
  const int64_t row_, column_;
};

TEST(FaultyWeights, AreNamedWithTheirPlace) {
  TRL_NEED_TINY_RUN();
  for (const char* dtype : {"float32", "bfloat16"}) {
    const auto model = opened(dtype);
    EXPECT_EQ(faulty_weight(*model), "");
    named(*model, "model.layers.1.mlp.up_proj.weight").write()->select(0, 3).select(0, 5).fill_(-kInf);
    EXPECT_EQ(faulty_weight(*model), "model.layers.1.mlp.up_proj.weight[3, 5] is -inf");
    named(*model, "model.layers.0.self_attn.q_proj.bias").write()->select(0, 7).fill_(std::nan(""));
    EXPECT_EQ(faulty_weight(*model), "model.layers.0.self_attn.q_proj.bias[7] is nan");
  }
}

TEST(FaultyWeights, AreFoundInBlocksAndInAdapters) {
  TRL_NEED_TINY_RUN();
  const auto model = opened("float32", {.form = config::WeightForm::int8});
  const std::string factor = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
  const base::Json config = base::parse_json(R"({"r": 2, "target_modules": ["q_proj"]})", "test");
  model->adapters()
      .add("default", config::read_lora_config(config, "test", Status::format), at::kFloat)
      .start(1);
  EXPECT_EQ(faulty_weight(*model), "");
  named(*model, factor).write()->select(0, 1).fill_(std::nan(""));
  EXPECT_EQ(faulty_weight(*model), factor + "[1, 0] is nan");
  tensor::Parameter& blocks = named(*model, "model.layers.1.mlp.down_proj.weight");
  ASSERT_NE(blocks.encoded(), nullptr);
  const int64_t last = blocks.size(0) - 1;
  blocks.hold(std::make_shared<OneNan>(blocks.shape(), last, 4));
  EXPECT_EQ(faulty_weight(*model), fmt::format("{}[{}, 4] is nan", blocks.name, last));
}

// At the first step, of a weight that is frozen too.
TEST(FaultyWeights, AreNamedAtTheFirstStep) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = test::tiny_run({});
  Trainer& trainer = run.start();
  named(run.model(), "model.layers.0.mlp.gate_proj.weight").write()->select(0, 2).select(0, 1).fill_(kInf);
  const auto [status, message] = test::error_of([&] { trainer.step(); });
  EXPECT_EQ(status, Status::invalid_argument);
  EXPECT_TRUE(
      message.ends_with("; the weights are as before the step; model.layers.0.mlp.gate_proj.weight[2, 1] is "
                        "inf: give a model whose weights are finite"))
      << message;
}

// An evaluation says so too, of whichever micro-batch has the loss.
TEST(FaultyWeights, AreNamedByAnEvaluation) {
  TRL_NEED_TINY_RUN();
  for (const char* then : {"error", "continue"}) {
    test::SftRun run = test::tiny_run({{"on_nonfinite", then}}, {0, 7});
    Evaluator evaluator({.arguments = run.setup.arguments, .model = &run.model()});
    EXPECT_TRUE(std::isfinite(test::value(evaluator.evaluate(run.train_stream()), "eval_loss")));
    named(run.model(), "model.norm.weight").write()->select(0, 3).fill_(std::nan(""));
    const auto [status, message] = test::error_of([&] { evaluator.evaluate(run.train_stream()); });
    if (std::string_view(then) == "continue") {
      EXPECT_EQ(message, "");
      continue;
    }
    EXPECT_EQ(status, Status::invalid_argument);
    EXPECT_TRUE(message.starts_with("the loss of the evaluation is nan (dataset rows 0")) << message;
    EXPECT_TRUE(message.ends_with("); model.norm.weight[3] is nan: give a model whose weights are finite"))
        << message;
  }
}

// The policy is finite, and the other model is not.
TEST(FaultyWeights, AreNamedInTheReference) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string bad = scratch / "bad", good = test::golden_path("models/qwen2");
  {
    const auto model = opened("float32");
    named(*model, "model.norm.weight").write()->select(0, 3).fill_(std::nan(""));
    checkpoint::save_model(bad, *model, {});
  }
  const std::string weight = "the reference model " + bad + ": model.norm.weight[3] is nan";
  for (const auto& [method, rows] : {std::pair{"dpo", "train_pref"}, std::pair{"kto", "train_unpaired"}}) {
    for (const char* recorded : {"false", "true"}) {
      SCOPED_TRACE(fmt::format("{}, precompute_ref_log_probs {}", method, recorded));
      test::SftRun run(test::tiny_config({{"method", method},
                                          {"ref_model_name_or_path", bad.c_str()},
                                          {"precompute_ref_log_probs", recorded},
                                          {"ref_logprobs_cache_dir", scratch.path().c_str()}}),
                       good, test::golden_path(fmt::format("data/datasets/{}.jsonl", rows)), {0, 7});
      const auto [status, message] = test::error_of([&] { run.start().step(); });
      EXPECT_EQ(status, Status::invalid_argument);
      EXPECT_TRUE(message.ends_with(weight + ": give a model whose weights are finite")) << message;
    }
  }
}

}  // namespace
}  // namespace trl::train
