// Recorded forward passes: padded right and left, packed, and greedy decoding through the cache.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include "support/sequence.h"

#include "base/error.h"
#include "model/golden_batch.h"
#include "model/model.h"

namespace trl::model {
namespace {

using base::Json;
using test::GoldenBatch;

// Those whose numbers are here, and the others where the whole collection is (families_test.cc compares every
// family).
std::vector<std::string> models() {
  std::vector<std::string> names = {"llama", "llama3",     "llama_sharded", "mistral",
                                    "qwen2", "qwen2_bf16", "qwen3"};
  for (const char* name : {"phi3", "gemma2", "gemma3", "gpt2", "qwen3_moe", "qwen2_teacher"}) {
    if (!test::golden_path(fmt::format("forward/{}/tensors.safetensors", name)).empty())
      names.push_back(name);
  }
  return names;
}

struct Recorded {
  explicit Recorded(const std::string& name)
      : json(test::golden_json("forward/" + name + "/case.json")),
        tensors(test::golden_path("forward/" + name + "/tensors.safetensors")),
        model(Model::open(test::golden_path("models/" + name), "float32")) {}
  Json json;
  io::Safetensors tensors;
  std::unique_ptr<Model> model;
};

at::Tensor logits_of(Model& model, const at::Tensor& hidden, at::ScalarType compute) {
  return kernels::head_logits(hidden, model.head(), model.head_options(compute));
}

// Rows of a recorded [batch, width, ...] tensor at the real positions.
at::Tensor at_places(const at::Tensor& padded, const GoldenBatch& batch) {
  std::vector<at::Tensor> rows;
  for (const auto& [row, column] : batch.places) rows.push_back(padded[row][column]);
  return at::stack(rows);
}

int compare_hidden_norms(const std::vector<at::Tensor>& states, const Recorded& recorded,
                         const std::string& run, const GoldenBatch& batch) {
  const at::Tensor want = test::golden_tensor(recorded.tensors, run + ".hidden_norms");
  EXPECT_EQ(want.size(0), static_cast<int64_t>(states.size()));
  int compared = 0;
  for (size_t layer = 0; layer < states.size(); ++layer) {
    const at::Tensor state = states[layer].to(at::kDouble);
    const at::Tensor norms = state.square().sum(1).sqrt();
    EXPECT_LE(
        test::used_limit(norms, at_places(want[static_cast<int64_t>(layer)], batch), test::limits::forward),
        1)
        << layer;
    const Json& runs = recorded.json["runs"][run];
    if (runs.contains("hidden_norms_per_layer")) {
      const double total = state.square().sum().sqrt().item<double>();
      EXPECT_TRUE(
          test::close(total, runs["hidden_norms_per_layer"][layer].get<double>(), test::limits::forward))
          << layer;
      ++compared;
    }
  }
  return compared;
}

// Next-token log-probability and entropy at every position whose successor is real, and their mean.
void compare_token_statistics(const at::Tensor& logits, const Json& run, const GoldenBatch& batch) {
  const at::Tensor log_p = at::log_softmax(logits.to(at::kDouble), 1);
  const at::Tensor entropy = -(log_p.exp() * log_p).sum(1);
  const int32_t* ids = batch.input.input_ids.data_ptr<int32_t>();
  double nll = 0;
  int count = 0;
  for (size_t i = 0; i + 1 < batch.places.size(); ++i) {
    const auto [row, column] = batch.places[i];
    if (batch.places[i + 1].first != row) continue;
    const double got = log_p[static_cast<int64_t>(i)][ids[i + 1]].item<double>();
    EXPECT_TRUE(test::close(got, run["token_logprobs"][row][column].get<double>(), test::limits::forward));
    EXPECT_TRUE(test::close(entropy[static_cast<int64_t>(i)].item<double>(),
                            run["token_entropy"][row][column].get<double>(), test::limits::forward));
    nll -= got;
    ++count;
  }
  EXPECT_EQ(count, 24 + 17 + 9 - 3);
  EXPECT_TRUE(test::close(nll / count, run["mean_nll"].get<double>(), test::limits::forward));
}

TEST(Forward, PaddedRightAndLeft) {
  TRL_NEED_GOLDEN("forward/llama/case.json");
  const at::NoGradGuard no_grad;
  int runs = 0;
  int norms = 0;
  for (const std::string& name : models()) {
    SCOPED_TRACE(name);
    const Recorded recorded(name);
    for (const std::string run : {"right", "left"}) {
      SCOPED_TRACE(run);
      const Json& json = recorded.json["runs"][run];
      const GoldenBatch batch = test::golden_batch(json["input_ids"], json["attention_mask"]);
      const std::vector<at::Tensor> states = recorded.model->hidden_states(batch.input, {});
      norms += compare_hidden_norms(states, recorded, run, batch);
      const at::Tensor logits = logits_of(*recorded.model, states.back(), at::kFloat);
      const at::Tensor want = at_places(test::golden_tensor(recorded.tensors, run + ".logits"), batch);
      EXPECT_LE(test::used_limit(logits, want, test::limits::forward), 1);
      const Output output = recorded.model->forward(batch.input, {.router_loss = true});
      EXPECT_TRUE(at::equal(output.hidden, states.back()));
      ASSERT_EQ(output.router_loss.defined(), name == "qwen3_moe");
      if (output.router_loss.defined()) {
        EXPECT_TRUE(test::close(output.router_loss.item<double>(), json["aux_loss"], test::limits::forward));
      }
      if (run == "right") compare_token_statistics(logits, json, batch);
      ++runs;
    }
  }
  EXPECT_EQ(runs, 2 * std::ssize(models()));
  EXPECT_GE(norms, runs * 3);
}

TEST(Forward, PackedDocumentsDoNotSeeEachOther) {
  TRL_NEED_GOLDEN("forward/llama/case.json");
  const at::NoGradGuard no_grad;
  int runs = 0;
  for (const std::string& name : models()) {
    SCOPED_TRACE(name);
    const Recorded recorded(name);
    const Json& json = recorded.json["runs"]["packed"];
    const std::vector<int32_t> ids = json["input_ids"][0];
    std::vector<std::vector<int32_t>> documents;
    auto at = ids.begin();
    for (const int64_t length : json["sequence_lengths"]) {
      documents.emplace_back(at, at + length);
      at += length;
    }
    ASSERT_EQ(at, ids.end());
    const ForwardInput input = test::forward_input(documents);
    EXPECT_TRUE(at::equal(input.position_ids, test::int_tensor(json["position_ids"][0])));
    const at::Tensor logits =
        logits_of(*recorded.model, recorded.model->forward(input, {}).hidden, at::kFloat);
    EXPECT_LE(test::used_limit(logits, test::golden_tensor(recorded.tensors, "packed.logits")[0],
                               test::limits::forward),
              1);
    ++runs;
  }
  EXPECT_EQ(runs, std::ssize(models()));
}

TEST(Forward, ModelsAreAsLargeAsTheirIndexSays) {
  TRL_NEED_GOLDEN("models/index.json");
  int models = 0;
  for (const auto& [name, about] : test::golden_json("models/index.json").items()) {
    SCOPED_TRACE(name);
    const bool scores = about["architecture"].get<std::string>().ends_with("ForSequenceClassification");
    const auto model = Model::open(test::golden_path("models/" + name), "float32", nullptr, at::kCPU,
                                   scores ? Head::scores : Head::language);
    int64_t values = 0;
    for (Parameter* parameter : model->parameters()) values += parameter->read()->numel();
    EXPECT_EQ(values, about["parameters"].get<int64_t>());
    EXPECT_EQ(model->config().vocab_size, about["vocab_size"].get<int64_t>());
    ++models;
  }
  EXPECT_EQ(models, 14);
}

TEST(Forward, GreedyDecodingThroughTheCache) {
  TRL_NEED_GOLDEN("forward/llama/case.json");
  int tokens = 0;
  for (const std::string& name : models()) {
    SCOPED_TRACE(name);
    const Recorded recorded(name);
    const Json& json = recorded.json["runs"]["greedy"];
    for (size_t row = 0; row < json["input_ids"].size(); ++row) {
      std::vector<int32_t> next;
      for (size_t i = 0; i < json["input_ids"][row].size(); ++i) {
        if (json["attention_mask"][row][i] == 1) next.push_back(json["input_ids"][row][i].get<int32_t>());
      }
      test::Sequence sequence(*recorded.model);
      for (size_t step = 0; step < json["max_new_tokens"]; ++step) {
        const at::Tensor hidden = sequence.extend(next).hidden;
        const at::Tensor logits = logits_of(*recorded.model, hidden, at::kFloat)[0];
        const int64_t best = logits.argmax().item<int64_t>();
        ASSERT_EQ(best, json["new_tokens"][row][step].get<int64_t>()) << row << " " << step;
        EXPECT_TRUE(test::close(logits[best].item<double>(), json["chosen_logit"][row][step].get<double>(),
                                test::limits::forward));
        next = {static_cast<int32_t>(best)};
        ++tokens;
      }
    }
  }
  EXPECT_EQ(tokens, std::ssize(models()) * 3 * 24);
}

TEST(Forward, BfloatWeightsComputeInBfloat) {
  TRL_NEED_GOLDEN("forward/qwen2_bf16/case.json");
  const at::NoGradGuard no_grad;
  const Recorded recorded("qwen2_bf16");
  const Json& json = recorded.json["runs"]["right"];
  const GoldenBatch batch = test::golden_batch(json["input_ids"], json["attention_mask"]);
  const auto model = Model::open(test::golden_path("models/qwen2_bf16"), "auto");
  ASSERT_EQ(model->dtype(), at::kBFloat16);
  const at::Tensor hidden = model->forward(batch.input, {}).hidden;
  EXPECT_EQ(hidden.scalar_type(), at::kBFloat16);
  const at::Tensor logits = logits_of(*model, hidden, model->compute(at::kFloat));
  const at::Tensor want = at_places(test::golden_tensor(recorded.tensors, "right.logits_bfloat16"), batch);
  EXPECT_LE(test::used_limit(logits, want, {5e-2, 0}), 1);
}

// Prefill, then one token at a time, against the whole sequence at once.
TEST(Forward, CacheAgreesWithTheWholeSequence) {
  TRL_NEED_GOLDEN("models/qwen3/config.json");
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 20; ++i) ids.push_back(i * 7 % 500);
  const at::NoGradGuard no_grad;
  for (const std::string name : {"qwen3", "mistral"}) {  // all of it, and a window of 8
    SCOPED_TRACE(name);
    const auto model = Model::open(test::golden_path("models/" + name), "float32");
    const at::Tensor whole = model->forward(test::forward_input({ids}), {}).hidden;
    test::Sequence sequence(*model);
    const std::vector<int32_t> head(ids.begin(), ids.begin() + 5);
    EXPECT_LE(test::used_limit(sequence.extend(head).hidden[0], whole[4], {1e-5, 1e-5}), 1);
    const std::vector<int32_t> middle(ids.begin() + 5, ids.begin() + 11);
    EXPECT_LE(test::used_limit(sequence.extend(middle).hidden[0], whole[10], {1e-5, 1e-5}), 1);
    for (size_t i = 11; i < ids.size(); ++i) {
      const at::Tensor hidden = sequence.extend({ids[i]}).hidden;
      EXPECT_LE(test::used_limit(hidden[0], whole[static_cast<int64_t>(i)], {1e-5, 1e-5}), 1) << i;
    }
  }
}

TEST(Forward, RefusesIdsOutsideTheVocabulary) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const auto model = Model::open(test::golden_path("models/llama"), "float32");
  for (const int32_t id : {448, -1, INT32_MAX}) {
    try {
      model->forward(test::forward_input({{1, id}}), {});
      ADD_FAILURE() << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), fmt::format("token id {} is outside the vocabulary of 448 tokens", id));
    }
  }
  EXPECT_THROW(model->extend({}, at::kFloat), Error);
}

}  // namespace
}  // namespace trl::model
