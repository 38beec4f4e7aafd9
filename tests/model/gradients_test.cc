// Recorded gradients of the token-mean loss, every tensor; and recomputing, which must change no bit of
// them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kernels/nll_loss.h"
#include "kernels/path.h"
#include "model/golden_batch.h"
#include "model/model.h"

namespace trl::model {
namespace {

using base::Json;
using test::GoldenBatch;

void make_gradients(Model& model) {
  for (Parameter* parameter : model.parameters())
    parameter->begin_training(at::zeros_like(*parameter->read()));
}

// label[i + 1] inside a row, -100 at its end.
at::Tensor targets_of(const Json& labels, const GoldenBatch& batch) {
  std::vector<int32_t> targets;
  for (size_t i = 0; i < batch.places.size(); ++i) {
    const auto [row, column] = batch.places[i];
    const bool inside = i + 1 < batch.places.size() && batch.places[i + 1].first == row;
    targets.push_back(inside ? labels[row][column + 1].get<int32_t>() : -100);
  }
  return test::int_tensor(targets);
}

double backward(Model& model, const GoldenBatch& batch, const at::Tensor& targets, double items,
                const ForwardOptions& options, test::NllSums* sums) {
  const Output output = model.forward(batch.input, options);
  kernels::HeadOptions head = model.head_options(options.compute);
  head.tile_rows = 16;
  at::Tensor loss = test::nll_loss(output.hidden, model.head(), targets, 1.0 / items, head, sums);
  if (output.router_loss.defined()) loss = loss + model.config().experts.balance * output.router_loss;
  loss.backward();
  return loss.item<double>();
}

void compare_tensor(const Parameter& parameter, const Json& want, const io::Safetensors* all) {
  SCOPED_TRACE(parameter.name);
  ASSERT_EQ(parameter.gradient().sizes().vec(), want["shape"].get<std::vector<int64_t>>());
  const at::Tensor got = parameter.gradient().to(at::kDouble);
  const auto [floor, relative] = test::limits::gradient;
  const double limit = floor + relative * want["max_abs"].get<double>();
  const double norm = got.square().sum().sqrt().item<double>();
  EXPECT_TRUE(test::close(norm, want["norm"].get<double>(), test::limits::gradient)) << norm;
  EXPECT_NEAR(got.mean().item<double>(), want["mean"].get<double>(), limit);
  EXPECT_NEAR(got.abs().max().item<double>(), want["max_abs"].get<double>(), limit);
  const at::Tensor flat = got.flatten();
  for (size_t i = 0; i < want["first"].size(); ++i) {
    EXPECT_NEAR(flat[static_cast<int64_t>(i)].item<double>(), want["first"][i].get<double>(), limit);
  }
  if (all == nullptr) return;
  const at::Tensor recorded = test::golden_tensor(*all, parameter.name).to(at::kDouble);
  EXPECT_LE((test::recorded_columns(got, recorded) - recorded).abs().max().item<double>(), limit);
}

struct Compared {
  int tensors = 0;
  int whole = 0;  // models of which every value was recorded
};

void compare_gradients(const std::string& name, Compared& compared) {
  SCOPED_TRACE(name);
  const Json json = test::golden_json("grads/" + name + "/case.json");
  const std::string tensors = test::golden_path("grads/" + name + "/grads.safetensors");
  const auto all = tensors.empty() ? nullptr : std::make_unique<io::Safetensors>(tensors);
  const auto model = Model::open(test::golden_path("models/" + name), "float32");
  make_gradients(*model);
  const GoldenBatch batch = test::golden_batch(json["input_ids"], json["attention_mask"]);
  test::NllSums sums;
  const double loss = backward(*model, batch, targets_of(json["labels"], batch),
                               json["num_label_tokens"].get<double>(), {.router_loss = true}, &sums);
  EXPECT_EQ(sums.count, json["num_label_tokens"].get<int64_t>());
  EXPECT_TRUE(test::close(loss, json["loss"].get<double>(), test::limits::forward)) << loss;
  double total = 0;
  for (const Parameter* parameter : model->parameters()) {
    ASSERT_TRUE(json["grads"].contains(parameter->name)) << parameter->name;
    compare_tensor(*parameter, json["grads"][parameter->name], all.get());
    total += parameter->gradient().to(at::kDouble).square().sum().item<double>();
    ++compared.tensors;
  }
  EXPECT_EQ(model->parameters().size(), json["grads"].size());
  EXPECT_TRUE(test::close(std::sqrt(total), json["total_grad_norm"].get<double>(), test::limits::gradient));
  compared.whole += all != nullptr;
}

TEST(Gradients, EveryTensorAsRecorded) {
  TRL_NEED_GOLDEN("grads/llama/case.json");
  Compared compared;
  for (const char* name : {"llama", "llama3", "mistral", "qwen2", "qwen3"}) compare_gradients(name, compared);
  EXPECT_EQ(compared.whole, 3);
  EXPECT_EQ(compared.tensors, 20 + 21 + 21 + 26 + 25);
}

// families_test.cc has these families too, with smaller cases.
TEST(Gradients, OfOtherFamiliesAsRecorded) {
  TRL_NEED_GOLDEN("grads/gemma2/case.json");
  Compared compared;
  for (const char* name : {"phi3", "gemma2", "gemma3", "gpt2", "qwen3_moe"})
    compare_gradients(name, compared);
  EXPECT_EQ(compared.whole, 1);
  EXPECT_EQ(compared.tensors, 15 + 24 + 41 + 28 + 25);
}

using config::Recomputed;
constexpr Recomputed kRecomputedForms[] = {Recomputed::nothing, Recomputed::layers, Recomputed::selective,
                                           Recomputed::products};

TEST(Gradients, RecomputingChangesNoBit) {
  TRL_NEED_GOLDEN("grads/qwen3/case.json");
  int compared = 0;
  for (const std::string name : {"llama", "mistral", "qwen2", "qwen3"}) {
    for (const auto& [dtype, compute] :
         {std::pair{"float32", at::kFloat}, {"float32", at::kBFloat16}, {"bfloat16", at::kBFloat16}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", name, dtype, c10::toString(compute)));
      const Json json = test::golden_json("grads/" + name + "/case.json");
      const GoldenBatch batch = test::golden_batch(json["input_ids"], json["attention_mask"]);
      const at::Tensor targets = targets_of(json["labels"], batch);
      std::vector<std::unique_ptr<Model>> models;
      double loss[2];
      for (const bool again : {false, true}) {
        models.push_back(Model::open(test::golden_path("models/" + name), dtype));
        make_gradients(*models.back());
        const config::Recompute recompute{again ? Recomputed::layers : Recomputed::nothing};
        loss[again] = backward(*models.back(), batch, targets, 38, {compute, recompute}, nullptr);
      }
      EXPECT_EQ(loss[0], loss[1]);
      const auto plain = models[0]->parameters();
      const auto again = models[1]->parameters();
      for (size_t i = 0; i < plain.size(); ++i) {
        EXPECT_TRUE(at::equal(plain[i]->gradient(), again[i]->gradient())) << plain[i]->name;
        EXPECT_GT(plain[i]->gradient().abs().max().item<double>(), 0) << plain[i]->name;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 3 * (20 + 21 + 26 + 25));
}

TEST(Gradients, FrozenParametersGetNone) {
  TRL_NEED_GOLDEN("grads/llama/case.json");
  const Json json = test::golden_json("grads/llama/case.json");
  const GoldenBatch batch = test::golden_batch(json["input_ids"], json["attention_mask"]);
  const at::Tensor targets = targets_of(json["labels"], batch);
  const auto all = Model::open(test::golden_path("models/llama"), "float32");
  make_gradients(*all);
  backward(*all, batch, targets, 38, {}, nullptr);
  const auto one = Model::open(test::golden_path("models/llama"), "float32");
  Parameter* chosen = one->parameters()[1];
  ASSERT_EQ(chosen->name, "model.layers.0.self_attn.q_proj.weight");
  chosen->begin_training(at::zeros_like(*chosen->read()));
  backward(*one, batch, targets, 38, {}, nullptr);
  EXPECT_TRUE(at::equal(chosen->gradient(), all->parameters()[1]->gradient()));
  for (const Parameter* parameter : one->parameters())
    EXPECT_EQ(parameter->has_gradient(), parameter == chosen);
}

// A gradient is complete once in each backward pass, after its last addition: tied (the embedding and the
// head add to one) or not, whether layers are kept or computed again, on either path.
TEST(Gradients, SayOnceInEachBackwardThatTheyAreComplete) {
  TRL_NEED_GOLDEN("grads/qwen3/case.json");
  constexpr int kMicroBatches = 3;
  std::set<bool> tied;
  int64_t events = 0;
  for (const std::string name : {"llama", "qwen2", "qwen3"}) {
    const Json json = test::golden_json("grads/" + name + "/case.json");
    const GoldenBatch batch = test::golden_batch(json["input_ids"], json["attention_mask"]);
    const at::Tensor targets = targets_of(json["labels"], batch);
    for (const kernels::Path path : {kernels::Path::fused, kernels::Path::plain}) {
      for (const Recomputed form : kRecomputedForms) {
        SCOPED_TRACE(
            fmt::format("{} plain {} form {}", name, path == kernels::Path::plain, static_cast<int>(form)));
        const kernels::PathScope scope(path);
        const auto model = Model::open(test::golden_path("models/" + name), "float32");
        tied.insert(model->config().tie_word_embeddings);
        make_gradients(*model);
        std::map<std::string, std::vector<at::Tensor>> seen;  // the gradient at each event
        for (Parameter* p : model->parameters())
          p->on_complete([p, &seen] { seen[p->name].push_back(p->gradient().clone()); });
        for (int i = 1; i <= kMicroBatches; ++i) {
          backward(*model, batch, targets, 38, {at::kBFloat16, {form}}, nullptr);
          for (const Parameter* p : model->parameters()) {
            ASSERT_EQ(std::ssize(seen[p->name]), i) << p->name;
            EXPECT_TRUE(at::equal(seen[p->name].back(), p->gradient())) << p->name;
            ++events;
          }
        }
      }
    }
  }
  EXPECT_EQ(tied, (std::set<bool>{false, true}));
  EXPECT_EQ(events, (20 + 26 + 25) * kMicroBatches * 2 * 4);
}

// Two passes through the same layers in one graph, as in a loss over pairs; and a graph beside it that
// may still add.
TEST(Gradients, AreCompleteWhenEveryGraphHasAdded) {
  TRL_NEED_GOLDEN("grads/qwen3/case.json");
  const Json json = test::golden_json("grads/qwen3/case.json");
  const GoldenBatch batch = test::golden_batch(json["input_ids"], json["attention_mask"]);
  for (const Recomputed form : kRecomputedForms) {
    const auto model = Model::open(test::golden_path("models/qwen3"), "float32");
    make_gradients(*model);
    std::map<std::string, std::vector<at::Tensor>> seen;
    for (Parameter* p : model->parameters())
      p->on_complete([p, &seen] { seen[p->name].push_back(p->gradient().clone()); });
    const auto pair = [&] {
      const at::Tensor one = model->forward(batch.input, {at::kFloat, {form}}).hidden;
      return one.sum() + model->forward(batch.input, {at::kFloat, {form}}).hidden.square().sum();
    };
    at::Tensor other = pair();
    pair().backward();
    EXPECT_TRUE(seen.empty());
    other.reset();
    pair().backward();
    for (const Parameter* p : model->parameters()) {
      if (p == &model->head()) continue;  // no part of these graphs
      ASSERT_EQ(seen[p->name].size(), 1u) << p->name;
      EXPECT_TRUE(at::equal(seen[p->name][0], p->gradient())) << p->name;
    }
    EXPECT_EQ(seen.size(), model->parameters().size() - 1);
  }
}

TEST(Gradients, DecayAppliesToMatricesOnly) {
  TRL_NEED_GOLDEN("models/qwen3/config.json");
  int with = 0;
  int without = 0;
  for (const std::string name : {"qwen2", "qwen3", "llama_sharded"}) {
    const auto model = Model::open(test::golden_path("models/" + name), "float32");
    for (const Parameter* parameter : model->parameters()) {
      const bool none =
          parameter->name.find("norm") != std::string::npos || parameter->name.ends_with(".bias");
      EXPECT_EQ(parameter->decay, !none) << parameter->name;
      ++(parameter->decay ? with : without);
    }
  }
  EXPECT_EQ(with, 15 + 16 + 16);
  EXPECT_EQ(without, (4 + 6 + 1) + (8 + 1) + (4 + 14 + 1));
}

}  // namespace
}  // namespace trl::model
