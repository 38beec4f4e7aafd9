// Adapters of experts and routers against PEFT 0.21.2 (../parity/record_expert_adapters.py): files of its own
// and such of transformers 4, and adapters that begin from a seed.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "kernels/nll_loss.h"
#include "kernels/path.h"
#include "model/model.h"
#include "model/seeded_runs.h"
#include "support/error_of.h"
#include "support/sequence.h"

namespace trl::model {
namespace {

using base::Json;

const Json& recorded_experts() { return test::golden_json("adapters/experts.json"); }

// The tensors of the case's file, written beside its configuration.
void write_expert_adapter(
    const std::string& directory, const Json& one,
    const std::function<void(std::string&, std::vector<int64_t>&, std::vector<float>&)>& change = {}) {
  std::vector<test::SeededTensor> tensors;
  for (const auto& [name, shape] : one["tensors"].items()) {
    test::SeededTensor& tensor = tensors.emplace_back(test::SeededTensor{name, shape, {}});
    const test::Seeded seeded(recorded_experts()["seed"], name);
    for (int64_t i = 0; i < tensor.shape[0] * tensor.shape[1]; ++i)
      tensor.values.push_back(
          static_cast<float>(recorded_experts()["spread"].get<double>() * seeded[static_cast<uint64_t>(i)]));
    if (change) change(tensor.name, tensor.shape, tensor.values);
  }
  std::vector<io::NamedTensor> named;
  for (const test::SeededTensor& tensor : tensors) {
    if (tensor.name.empty()) continue;
    named.push_back({tensor.name, io::ElementType::f32, tensor.shape, tensor.values.data()});
  }
  base::write_file(directory + "/adapter_config.json", one["config"].dump());
  io::write_safetensors(directory + "/adapter_model.safetensors", named);
}

class ExpertAdapters : public testing::TestWithParam<std::string> {
 protected:
  const Json& json() const { return recorded_experts()[GetParam()]; }
  const Json& rows() const { return base_.json["runs"][0]["rows"]; }
  std::unique_ptr<Model> open(const config::Quantization& quantization = {}) const {
    auto model =
        Model::open(base_.directory.path(), "float32", nullptr, at::kCPU, Head::language, quantization);
    write_expert_adapter(adapter_.path(), json());
    Adapters& adapters = model->adapters();
    adapters.use(&adapters.open("default", adapter_.path()));
    return model;
  }
  void expect_log_probs(Model& model, const Json& want) const {
    const at::NoGradGuard no_grad;
    const at::Tensor logits = model.logits(model.forward(test::forward_input(rows()), {}), at::kFloat);
    const at::Tensor log_p = at::log_softmax(logits.to(at::kDouble), 1);
    int64_t token = 0;
    for (size_t row = 0; row < rows().size(); ++row, ++token) {
      for (size_t i = 0; i + 1 < rows()[row].size(); ++i, ++token) {
        const double got = log_p[token][rows()[row][i + 1].get<int64_t>()].item<double>();
        EXPECT_TRUE(test::close(got, want[row][i], test::limits::forward))
            << "row " << row << ", token " << i << ": " << got << ", recorded " << want[row][i];
      }
    }
  }
  at::Tensor loss(Model& model, bool recompute) const {
    const at::Tensor targets = test::successors(rows());
    const double tokens = at::ne(targets, -100).sum().item<double>();
    const at::Tensor hidden =
        model
            .forward(test::forward_input(rows()),
                     {.recompute = {recompute ? config::Recomputed::layers : config::Recomputed::nothing}})
            .hidden;
    return test::nll_loss(hidden, model.head(), targets, 1 / tokens, model.head_options(at::kFloat), nullptr);
  }

  const test::SeededModel base_{recorded_experts()[GetParam()]["model"]};
  const test::Scratch adapter_;
};

// Those that PEFT makes anew; old files it only opens.
class NewExpertAdapters : public ExpertAdapters {};

TEST_P(ExpertAdapters, PredictAndMergeAsPeft) {
  for (const kernels::Path path : {kernels::Path::fused, kernels::Path::plain}) {
    const kernels::PathScope scope(path);
    const auto model = open();
    expect_log_probs(*model, json()["logprobs"]);
    std::vector<at::Tensor> before;
    for (Parameter* p : model->parameters()) before.push_back(p->read()->clone());
    Adapters& adapters = model->adapters();
    adapters.use(nullptr);
    expect_log_probs(*model, base_.json["runs"][0]["logprobs"]);
    adapters.merge(adapters.get("default"));
    expect_log_probs(*model, json()["merged"]);
    adapters.unmerge();
    adapters.use(nullptr);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(at::equal(*model->parameters()[i]->read(), before[i])) << model->parameters()[i]->name;
    }
  }
}

// Plain descent as recorded: gradients of the first step, and the loss of each.
TEST_P(ExpertAdapters, LearnAsPeft) {
  for (const auto& [path, recompute] : {std::pair{kernels::Path::fused, false},
                                        {kernels::Path::fused, true},
                                        {kernels::Path::plain, false}}) {
    SCOPED_TRACE(testing::Message() << "fused " << (path == kernels::Path::fused) << ", recompute "
                                    << recompute);
    const kernels::PathScope scope(path);
    const auto model = open();
    Adapter& adapter = model->adapters().get("default");
    model->train_only(adapter);
    for (Parameter* p : model->all_parameters())
      p->begin_training(p->trainable ? at::zeros(p->shape()) : at::Tensor());
    ASSERT_EQ(adapter.parameters().size(), json()["gradients"].size());
    bool first = true;
    for (const Json& want : json()["losses"]) {
      const at::Tensor value = loss(*model, recompute);
      EXPECT_TRUE(test::close(value.item<double>(), want, test::limits::metric)) << value << " " << want;
      value.backward();
      for (Parameter* p : adapter.parameters()) {
        SCOPED_TRACE(p->name);
        ASSERT_TRUE(json()["gradients"].contains(p->name));
        if (first) {
          const test::Seeded seeded(base_.json["seed"], p->name + " gradient");
          test::compare_gradient(p->gradient(), json()["gradients"][p->name], seeded);
        }
        p->write()->sub_(p->gradient(), recorded_experts()["rate"].get<double>());
        p->gradient().zero_();
      }
      first = false;
    }
    for (Parameter* p : model->parameters()) EXPECT_FALSE(p->has_gradient()) << p->name;
    for (Parameter* p : model->all_parameters()) p->end_training();
  }
}

// Modules first and parameters after them: each value depends on all the draws before it.
TEST_P(NewExpertAdapters, BeginAsPeft) {
  const auto model = Model::open(base_.directory.path(), "float32");
  const config::LoraConfig config = config::read_lora_config(json()["given"], "test", Status::format);
  Adapter& adapter = model->adapters().add("new", config, at::kFloat);
  adapter.start(recorded_experts()["seed"]);
  ASSERT_EQ(adapter.parameters().size(), json()["begun"].size());
  for (Parameter* p : adapter.parameters()) {
    ASSERT_TRUE(json()["begun"].contains(p->name)) << p->name;
    const Json& want = json()["begun"][p->name];
    EXPECT_NEAR(p->read()->to(at::kDouble).sum().item<double>(), want[0].get<double>(), 1e-9) << p->name;
    EXPECT_EQ(p->read()->flatten()[-1].item<double>(), want[1].get<double>()) << p->name;
  }
}

// Experts in blocks: the loss and the gradients are those on the weights that the blocks stand for, bit by
// bit, and so is what is merged.
TEST_P(ExpertAdapters, LearnUponQuantisedExperts) {
  for (const config::WeightForm form : {config::WeightForm::nf4, config::WeightForm::int8}) {
    const auto quantised = open({.form = form}), numbers = open();
    for (size_t i = 0; i < numbers->parameters().size(); ++i)
      numbers->parameters()[i]->write()->copy_(*quantised->parameters()[i]->read());
    std::vector<std::vector<at::Tensor>> results;
    for (Model* const model : {quantised.get(), numbers.get()}) {
      Adapter& adapter = model->adapters().get("default");
      model->train_only(adapter);
      for (Parameter* p : model->all_parameters())
        p->begin_training(p->trainable ? at::zeros(p->shape()) : at::Tensor());
      const at::Tensor value = loss(*model, false);
      value.backward();
      auto& result = results.emplace_back(std::vector<at::Tensor>{value.detach()});
      for (Parameter* p : adapter.parameters()) result.push_back(p->gradient().clone());
      for (Parameter* p : model->all_parameters()) p->end_training();
      model->adapters().merge(adapter);
      const at::NoGradGuard no_grad;
      result.push_back(loss(*model, false));
      model->adapters().unmerge();
    }
    for (size_t i = 0; i + 1 < results[0].size(); ++i)
      EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i;
    EXPECT_TRUE(at::allclose(results[0].back(), results[1].back(), 1e-5));
  }
}

// A token that is decoded through the cache gets what it gets in a forward pass.
TEST_P(ExpertAdapters, Decode) {
  const at::NoGradGuard no_grad;
  const auto model = open();
  std::vector<int32_t> ids = rows()[1];
  const at::Tensor want = model->logits(model->forward(test::forward_input({ids}), {}), at::kFloat)[-1];
  test::Sequence sequence(*model);
  const int32_t last = ids.back();
  ids.pop_back();
  sequence.extend(ids);
  const at::Tensor got = model->logits(sequence.extend({last}), at::kFloat)[0];
  EXPECT_LE(test::used_limit(got, want, test::limits::forward), 1);
}

// What is damaged in a file of transformers 4 is named by its own name there.
TEST(OldExperts, DamagedFilesAreRefused) {
  const Json& one = recorded_experts()["mixtral_old"];
  const test::SeededModel small(one["model"]);
  const std::string layer = "base_model.model.model.layers.1.block_sparse_moe.experts.";
  const auto refused =
      [&](const std::string& name,
          const std::function<void(std::string&, std::vector<int64_t>&, std::vector<float>&)>& change) {
        const test::Scratch directory;
        write_expert_adapter(directory.path(), one,
                             [&](std::string& own, std::vector<int64_t>& shape, std::vector<float>& values) {
                               if (own == layer + name) change(own, shape, values);
                             });
        const auto model = Model::open(small.directory.path(), "float32");
        const auto [status, message] =
            test::error_of([&] { model->adapters().open("old", directory.path()); });
        EXPECT_EQ(status, Status::format) << message;
        EXPECT_EQ(model->adapters().find("old"), nullptr);
        return message;
      };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refused("2.w1.lora_B.weight", [](auto& name, auto&, auto&) { name.clear(); }),
         "lora_B of expert 2 is missing beside tensor " + layer + "0.w1.lora_A.weight");
  expect(refused("3.w2.lora_A.weight",
                 [](auto&, auto& shape, auto& values) {
                   shape[1] -= 1;
                   values.resize(static_cast<size_t>(shape[0] * shape[1]));
                 }),
         "tensor " + layer + "3.w2.lora_A.weight is [3, 39], and that of the first expert is [3, 40]");
  expect(refused("1.w3.lora_B.weight", [](auto&, auto&, auto& values) { values[4] = NAN; }),
         "tensor " + layer + "1.w3.lora_B.weight holds nan at element 4");
  // Of a model with more experts than this one has.
  expect(refused("3.w3.lora_A.weight",
                 [](auto& name, auto&, auto&) { name.replace(name.find(".3."), 3, ".4."); }),
         "of expert 4 is missing beside tensor");
}

std::vector<std::string> expert_cases(const char* with) {
  std::vector<std::string> names;
  for (const auto& [name, one] : recorded_experts().items()) {
    if (one.is_object() && one.contains(with)) names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Recorded, ExpertAdapters, testing::ValuesIn(expert_cases("losses")),
                         [](const auto& one) { return one.param; });
INSTANTIATE_TEST_SUITE_P(Recorded, NewExpertAdapters, testing::ValuesIn(expert_cases("begun")),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace trl::model
