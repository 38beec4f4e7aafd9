// Sequence classification of every family that has it in transformers: scores, and gradients through them.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/seeded_model.h"

namespace trl::model {
namespace {

using base::Json;

class Classifiers : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Model> open() const {
    return Model::open(seeded_.directory.path(), "float32", nullptr, at::kCPU, Head::scores);
  }
  const test::SeededModel seeded_{GetParam()};
};

// The hidden state of the last token of each row.
at::Tensor last_of(const at::Tensor& hidden, const ForwardInput& input) {
  std::vector<at::Tensor> rows;
  const std::vector<int32_t>& borders = input.segments->cu_seqlens;
  for (size_t i = 1; i < borders.size(); ++i) rows.push_back(hidden[borders[i] - 1]);
  return at::stack(rows).contiguous();
}

TEST_P(Classifiers, ScoresAsRecorded) {
  const at::NoGradGuard no_grad;
  const auto model = open();
  EXPECT_EQ(model->config().architecture, seeded_.json["architecture"]);
  for (const Json& run : seeded_.json["runs"]) {
    const ForwardInput input = test::forward_input(run["rows"]);
    const at::Tensor last = last_of(model->forward(input, {}).hidden, input);
    const at::Tensor scores = kernels::head_logits(last, model->head(), model->head_options(at::kFloat));
    ASSERT_EQ(scores.size(0), std::ssize(run["scores"]));
    ASSERT_EQ(scores.size(1), std::ssize(run["scores"][0]));
    for (int64_t row = 0; row < scores.size(0); ++row) {
      for (int64_t i = 0; i < scores.size(1); ++i) {
        const double want = run["scores"][static_cast<size_t>(row)][static_cast<size_t>(i)];
        EXPECT_TRUE(test::close(scores[row][i].item<double>(), want, test::limits::forward))
            << row << " " << i;
      }
    }
  }
}

TEST_P(Classifiers, AreNoLanguageModels) {
  try {
    Model::open(seeded_.directory.path(), "float32");
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::unsupported);
    EXPECT_NE(error.message().find("\"architectures\" begins with"), std::string::npos) << error.message();
  }
}

// Half the sum of the squared scores: its gradient at a score is the score itself.
TEST_P(Classifiers, GradientsAsRecorded) {
  const Json& want = seeded_.json["gradients"];
  const auto model = open();
  for (Parameter* parameter : model->parameters())
    parameter->begin_training(at::zeros_like(*parameter->read()));
  const ForwardInput input = test::forward_input(seeded_.json["runs"][0]["rows"]);
  const at::Tensor last = last_of(model->forward(input, {}).hidden, input);
  const kernels::Projection head{&model->head()};
  const at::Tensor loss = kernels::linear(last, head, at::kFloat)[0].square().sum() / 2;
  loss.backward();
  EXPECT_TRUE(test::close(loss.item<double>(), want["loss"], test::limits::forward)) << loss;
  double total = 0;
  for (const Parameter* parameter : model->parameters()) {
    ASSERT_TRUE(want["tensors"].contains(parameter->name)) << parameter->name;
    const double square = parameter->gradient().to(at::kDouble).square().sum().item<double>();
    EXPECT_TRUE(test::close(std::sqrt(square), want["tensors"][parameter->name][0], test::limits::gradient))
        << parameter->name;
    total += square;
  }
  EXPECT_EQ(model->parameters().size(), want["tensors"].size());
  EXPECT_TRUE(test::close(std::sqrt(total), want["total_norm"], test::limits::gradient));
}

INSTANTIATE_TEST_SUITE_P(Recorded, Classifiers, testing::ValuesIn(test::family_cases(true)),
                         [](const auto& param) { return param.param; });

TEST(Classifier, RecordedScoresOfTheWholeCollection) {
  TRL_NEED_GOLDEN("forward/qwen2_rm/case.json");
  const at::NoGradGuard no_grad;
  const Json& json = test::golden_json("forward/qwen2_rm/case.json");
  const auto model =
      Model::open(test::golden_path("models/qwen2_rm"), "float32", nullptr, at::kCPU, Head::scores);
  int compared = 0;
  for (const char* run : {"right", "left"}) {
    const Json& part = json["runs"][run];
    const test::GoldenBatch batch = test::golden_batch(part["input_ids"], part["attention_mask"]);
    const at::Tensor last = last_of(model->forward(batch.input, {}).hidden, batch.input);
    const at::Tensor scores = kernels::head_logits(last, model->head(), model->head_options(at::kFloat));
    for (int64_t row = 0; row < scores.size(0); ++row, ++compared) {
      EXPECT_TRUE(test::close(scores[row][0].item<double>(),
                              part["logits"][static_cast<size_t>(row)][0].get<double>(),
                              test::limits::forward))
          << run << " " << row;
    }
  }
  EXPECT_EQ(compared, 6);
}

TEST(Classifier, IsRefusedOfFamiliesThatHaveNone) {
  const test::SeededModel seeded("granite");
  try {
    Model::open(seeded.directory.path(), "float32", nullptr, at::kCPU, Head::scores);
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("transformers has no sequence classification of model_type \"granite\""),
              std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace trl::model
