// Every recorded family: forward passes, gradients, and greedy decoding through the cache.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include "support/sequence.h"

#include <mutex>
#include <set>

#include "kernels/nll_loss.h"
#include "kernels/path.h"
#include "model/model.h"
#include "model/seeded_runs.h"

namespace trl::model {
namespace {

using base::Json;
using test::close;

class Families : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Model> open() const { return Model::open(seeded_.directory.path(), "float32"); }
  const Json& json() const { return seeded_.json; }
  const std::string& path() const { return seeded_.directory.path(); }

 private:
  const test::SeededModel seeded_{GetParam()};
};

at::Tensor logits_of(Model& model, const at::Tensor& hidden) {
  return kernels::head_logits(hidden, model.head(), model.head_options(at::kFloat));
}

void compare_norms(const std::vector<at::Tensor>& states, const Json& run) {
  ASSERT_EQ(states.size(), run["norms"].size());
  for (size_t layer = 0; layer < states.size(); ++layer) {
    int64_t begin = 0;
    for (size_t row = 0; row < run["rows"].size(); ++row) {
      const auto length = static_cast<int64_t>(run["rows"][row].size());
      const at::Tensor state = states[layer].narrow(0, begin, length).to(at::kDouble);
      const double want = run["norms"][layer][row];
      EXPECT_TRUE(close(state.norm().item<double>(), want, test::limits::forward))
          << "layer " << layer << ", row " << row << ": " << state.norm() << ", recorded " << want;
      begin += length;
    }
  }
}

void compare_predictions(const at::Tensor& logits, const Json& run) {
  const at::Tensor log_p = at::log_softmax(logits.to(at::kDouble), 1);
  const at::Tensor entropy = -(log_p.exp() * log_p).sum(1);
  int64_t token = 0;
  for (size_t row = 0; row < run["rows"].size(); ++row, ++token) {
    for (size_t i = 0; i + 1 < run["rows"][row].size(); ++i, ++token) {
      const double got = log_p[token][run["rows"][row][i + 1].get<int64_t>()].item<double>();
      EXPECT_TRUE(close(got, run["logprobs"][row][i], test::limits::forward))
          << "row " << row << ", token " << i << ": " << got << ", recorded " << run["logprobs"][row][i];
      EXPECT_TRUE(close(entropy[token].item<double>(), run["entropy"][row][i], test::limits::forward))
          << "row " << row << ", token " << i;
    }
  }
  EXPECT_EQ(token, logits.size(0));
}

TEST_P(Families, ForwardAsRecorded) {
  const at::NoGradGuard no_grad;
  for (const Json& run : json()["runs"]) {
    const auto model = open();
    const std::vector<at::Tensor> states = model->hidden_states(test::forward_input(run["rows"]), {});
    compare_norms(states, run);
    const Output output = model->forward(test::forward_input(run["rows"]), {.router_loss = true});
    ASSERT_EQ(output.router_loss.defined(), run.contains("aux_loss"));
    if (output.router_loss.defined()) {
      EXPECT_TRUE(close(output.router_loss.item<double>(), run["aux_loss"], test::limits::forward));
    }
    compare_predictions(logits_of(*model, states.back()), run);
  }
}

TEST_P(Families, OrderOfRowsChangesNothing) {
  const at::NoGradGuard no_grad;
  const auto model = open();
  for (const Json& run : json()["runs"]) {
    std::vector<std::vector<int32_t>> rows = run["rows"];
    const at::Tensor there = model->forward(test::forward_input(rows), {}).hidden;
    std::reverse(rows.begin(), rows.end());
    const at::Tensor back = model->forward(test::forward_input(rows), {}).hidden;
    int64_t end = there.size(0), begin = 0;
    for (const auto& row : rows) {
      const auto length = static_cast<int64_t>(row.size());
      end -= length;
      EXPECT_LE(test::used_limit(back.narrow(0, begin, length), there.narrow(0, end, length), {1e-5, 1e-5}),
                1);
      begin += length;
    }
  }
}

TEST_P(Families, ComputesTheSameWhereItsWeightsStayInTheirFiles) {
  const at::NoGradGuard no_grad;
  const ForwardInput input = test::forward_input(json()["runs"][0]["rows"]);
  for (const auto& [dtype, limit] : {std::pair{"float32", 1e-5}, {"bfloat16", 2e-2}}) {
    const auto whole = Model::open(path(), dtype), mapped = Model::open_mapped(path(), dtype);
    const at::Tensor want = whole->forward(input, {}).hidden.to(at::kFloat);
    EXPECT_LE(test::used_limit(mapped->forward(input, {}).hidden.to(at::kFloat), want, {limit, limit}), 1)
        << dtype;
  }
}

// With nothing to train, all layers are frozen.
TEST_P(Families, FrozenLayersGiveADocumentTheSameBitsInEveryBatch) {
  const auto model = open();
  if (model->config().experts.count > 0) return;  // bits depend on who shares an expert
  for (Parameter* p : model->parameters()) p->begin_training({});
  EXPECT_EQ(model->frozen_layers(), model->config().num_hidden_layers);
  for (const Json& run : json()["runs"]) {
    const std::vector<std::vector<int32_t>> rows = run["rows"];
    const bool longer = std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
      return std::ssize(row) > model->config().rope.common_positions();
    });
    if (longer) continue;  // a longer document turns the others of its batch otherwise
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      const at::Tensor all = model->frozen_states(test::forward_input(rows), {.compute = compute});
      int64_t begin = 0;
      for (const auto& row : rows) {
        const auto length = static_cast<int64_t>(row.size());
        const at::Tensor alone = model->frozen_states(
            test::forward_input(std::vector<std::vector<int32_t>>{row}), {.compute = compute});
        EXPECT_TRUE(at::equal(alone, all.narrow(0, begin, length))) << compute << ", row at " << begin;
        begin += length;
      }
    }
  }
  for (Parameter* p : model->parameters()) p->end_training();
}

TEST_P(Families, GradientsAsRecorded) {
  const Json& want = json()["gradients"];
  const Json& rows = json()["runs"][0]["rows"];
  const at::Tensor targets = test::successors(rows);
  const double tokens = at::ne(targets, -100).sum().item<double>();
  for (const bool checkpoint : {false, true}) {
    SCOPED_TRACE(checkpoint);
    const auto model = open();
    for (Parameter* parameter : model->parameters())
      parameter->begin_training(at::zeros_like(*parameter->read()));
    ForwardOptions options{
        .recompute = {checkpoint ? config::Recomputed::layers : config::Recomputed::nothing},
        .router_loss = true};
    if (json().contains("random")) options.random = json()["random"].get<uint64_t>();
    const Output output = model->forward(test::forward_input(rows), options);
    at::Tensor loss = test::nll_loss(output.hidden, model->head(), targets, 1 / tokens,
                                     model->head_options(at::kFloat), nullptr);
    if (output.router_loss.defined()) loss = loss + model->config().experts.balance * output.router_loss;
    loss.backward();
    EXPECT_TRUE(close(loss.item<double>(), want["loss"], test::limits::forward)) << loss;
    double total = 0;
    for (const Parameter* parameter : model->parameters()) {
      SCOPED_TRACE(parameter->name);
      ASSERT_TRUE(want["tensors"].contains(parameter->name));
      const test::Seeded seeded(json()["seed"], parameter->name + " gradient");
      test::compare_gradient(parameter->gradient(), want["tensors"][parameter->name], seeded);
      total += parameter->gradient().to(at::kDouble).square().sum().item<double>();
    }
    EXPECT_EQ(model->parameters().size(), want["tensors"].size());
    EXPECT_TRUE(close(std::sqrt(total), want["total_norm"], test::limits::gradient));
  }
}

// Loss and gradients of one forward and backward.
std::vector<at::Tensor> trained(Model& model, const base::Json& json, const ForwardOptions& options) {
  const base::Json& rows = json["runs"][0]["rows"];
  for (Parameter* p : model.parameters()) p->begin_training(at::zeros_like(*p->read()));
  const Output output = model.forward(test::forward_input(rows), options);
  at::Tensor loss = test::nll_loss(output.hidden, model.head(), test::successors(rows), 0.1,
                                   model.head_options(options.compute), nullptr);
  if (output.router_loss.defined()) loss = loss + 0.01 * output.router_loss;
  loss.backward();
  std::vector<at::Tensor> all{loss.detach()};
  for (Parameter* p : model.parameters()) {
    all.push_back(p->gradient());
    p->end_training();
  }
  return all;
}

TEST_P(Families, EveryFormOfRecomputingHasTheSameBits) {
  using config::Recomputed;
  const auto model = open();
  for (const kernels::Path path : {kernels::Path::fused, kernels::Path::plain}) {
    const kernels::PathScope scope(path);
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      ForwardOptions options{.compute = compute, .router_loss = true, .random = 7};
      const std::vector<at::Tensor> want = trained(*model, json(), options);
      for (const config::Recompute recompute : {config::Recompute{Recomputed::layers},
                                                {Recomputed::selective},
                                                {Recomputed::products},
                                                {Recomputed::layers, 2},
                                                {Recomputed::products, 2}}) {
        options.recompute = recompute;
        const std::vector<at::Tensor> got = trained(*model, json(), options);
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(at::equal(got[i], want[i]))
              << static_cast<int>(recompute.form) << " every " << recompute.every_n_layers << ": " << i;
        }
      }
    }
  }
}

TEST_P(Families, ThePlainPathComputesTheSame) {
  const auto model = open();
  const auto computed = [&](kernels::Path path) {
    const kernels::PathScope scope(path);
    return trained(*model, json(), {.router_loss = true, .random = 7});
  };
  const std::vector<at::Tensor> got = computed(kernels::Path::fused), want = computed(kernels::Path::plain);
  ASSERT_EQ(got.size(), want.size());
  const auto parameters = model->parameters();
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string name = i == 0 ? "loss" : parameters[i - 1]->name;
    EXPECT_LE((got[i] - want[i]).norm().item<double>(), 2e-5 * want[i].norm().item<double>() + 1e-6) << name;
  }
}

// Names of ATen's operators that compute something, of those that run while this lives.
class Operators {
 public:
  Operators() {
    called().clear();
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(note).scopes({at::RecordScope::FUNCTION}));
  }
  ~Operators() { at::removeCallback(handle_); }
  static std::set<std::string> computed() {
    std::set<std::string> found;
    for (const char* name :
         {"linear",    "matmul",       "mm",          "addmm",    "bmm",          "baddbmm",
          "embedding", "index_select", "softmax",     "_softmax", "_log_softmax", "rsqrt",
          "exp",       "tanh",         "silu",        "gelu",     "relu",         "square",
          "mean",      "topk",         "masked_fill", "cumsum",   "sigmoid"}) {
      if (called().contains(std::string("aten::") + name)) found.insert(name);
    }
    return found;
  }

 private:
  static std::set<std::string>& called() {
    static std::set<std::string> names;
    return names;
  }
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    called().insert(function.name());
    return nullptr;
  }
  at::CallbackHandle handle_;
};

TEST_P(Families, NothingIsComputedByOperatorsOnTheCpu) {
  const Json& rows = json()["runs"][0]["rows"];
  const auto computed = [&](kernels::Path path) {
    const kernels::PathScope scope(path);
    const auto model = open();
    for (Parameter* parameter : model->parameters())
      parameter->begin_training(at::zeros_like(*parameter->read()));
    const at::Tensor targets = test::successors(rows);
    const Operators operators;
    const Output output = model->forward(test::forward_input(rows), {.router_loss = true, .random = 1});
    test::nll_loss(output.hidden, model->head(), targets, 1, model->head_options(at::kFloat), nullptr)
        .backward();
    test::Sequence sequence(*model);
    for (const std::vector<int32_t>& ids : {std::vector<int32_t>{3, 4, 5}, {6}})
      logits_of(*model, sequence.extend(ids).hidden);
    return Operators::computed();
  };
  EXPECT_EQ(computed(kernels::Path::fused), std::set<std::string>{});
  EXPECT_TRUE(computed(kernels::Path::plain).contains("linear"));
}

TEST_P(Families, GreedyDecodingThroughTheCache) {
  for (const Json& greedy : json()["greedy"]) {
    const auto model = open();
    test::Sequence sequence(*model);
    std::vector<int32_t> next = greedy["prompt"];
    for (size_t step = 0; step < greedy["tokens"].size(); ++step) {
      const at::Tensor logits = logits_of(*model, sequence.extend(next).hidden)[0];
      next = {static_cast<int32_t>(logits.argmax().item<int64_t>())};
      ASSERT_EQ(next[0], greedy["tokens"][step]) << step;
      EXPECT_TRUE(close(logits[next[0]].item<double>(), greedy["logits"][step], test::limits::forward))
          << step;
    }
  }
}

// Keys and values as integers move hidden states by a few hundredths at most, and by the same bits in every
// cut.
TEST_P(Families, KeysAndValuesAsIntegers) {
  const at::NoGradGuard no_grad;
  const auto model = open();
  for (const Json& greedy : json()["greedy"]) {
    const std::vector<int32_t> ids = greedy["prompt"];
    const at::Tensor exact = test::Sequence(*model).extend(ids).hidden;
    const at::Tensor at_once = test::Sequence(*model, at::kFloat, {}, true).extend(ids).hidden;
    const double error = ((at_once - exact).norm() / exact.norm()).item<double>();
    EXPECT_LT(error, 0.05);
    EXPECT_GT(error, 0);
    if (model->config().rope.common_positions() <= std::ssize(ids)) continue;
    test::Sequence sequence(*model, at::kFloat, {}, true);
    at::Tensor one_by_one;
    for (const int32_t id : ids) one_by_one = sequence.extend({id}).hidden;
    EXPECT_TRUE(at::equal(one_by_one, at_once));
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, Families, testing::ValuesIn(test::family_cases(false)),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace trl::model
