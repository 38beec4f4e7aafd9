// Log-probabilities of generation and of training on the same tokens, mixtures of experts, and adapters that
// share a batch: the same bits.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <map>

#include "kernels/gemm/gemm_int8.h"
#include "kernels/head/log_probability.h"
#include "model/golden_batch.h"
#include "support/generate.h"
#include "support/seeded_model.h"

namespace trl::generate {
namespace {

using base::Json;
using model::Model;

// A model of the recorded ones, or of the recorded families.
class Opened {
 public:
  explicit Opened(const std::string& name, const char* dtype = "float32",
                  const config::Quantization& quantization = {}) {
    std::string path = TRL_SOURCE_DIR "/tests/golden/models/" + name;
    if (!std::filesystem::exists(path)) path = seeded_.emplace(name).directory.path();
    model_ = Model::open(path, dtype, nullptr, at::kCPU, model::Head::language, quantization);
  }
  Model& operator*() const { return *model_; }
  Model* operator->() const { return model_.get(); }

 private:
  std::optional<test::SeededModel> seeded_;
  std::unique_ptr<Model> model_;
};

// An adapter whose factors are all drawn; of all modules, and of the experts too, unless `fields` says which.
const model::Adapter* add_adapter(Model& model, const std::string& name, uint64_t seed,
                                  const std::string& fields = "") {
  std::string all = R"("target_modules": "all-linear")";
  if (model.config().experts.count > 0)
    all += R"(, "target_parameters": ["experts.gate_up_proj", "experts.down_proj"])";
  const base::Json json = base::parse_json(
      R"({"r": 4, "lora_alpha": 16, "init_lora_weights": false, )" + (fields.empty() ? all : fields) + "}",
      "test");
  model::Adapter& adapter =
      model.adapters().add(name, config::read_lora_config(json, "test", Status::format), at::kFloat);
  adapter.start(seed);
  return &adapter;
}

struct Written {
  std::vector<int32_t> prompt, ids;
  std::vector<float> whole;
  bool operator==(const Written&) const = default;
};

class WrittenAll final : public engine::GenerationSink {
 public:
  bool on_token(int64_t sequence, const engine::Token& token) noexcept override {
    all[sequence].ids.push_back(token.id);
    all[sequence].whole.push_back(token.whole_log_probability);
    return true;
  }
  void on_end(int64_t, engine::Finish, std::string_view error) noexcept override { EXPECT_EQ(error, ""); }
  void on_prompt(int64_t sequence, const engine::PromptToken& token) noexcept override {
    scores[sequence].push_back(token.log_probability);
  }
  std::map<int64_t, Written> all;
  std::map<int64_t, std::vector<float>> scores;  // of the ids of prompts after the first
};

std::vector<Written> written(const Model& model, at::ScalarType compute, const std::vector<Request>& requests,
                             int64_t step_tokens = 1000) {
  Limits limits = limits_for(model, compute, int64_t{64} << 20);
  limits.step_tokens = step_tokens;
  Generator generator(model, compute, limits);
  WrittenAll to;
  for (const Request& request : requests) generator.add(request);
  while (generator.step(to)) {
  }
  std::vector<Written> all;
  for (auto& [sequence, one] : to.all) {
    one.prompt = requests[static_cast<size_t>(sequence)].ids;
    all.push_back(one);
  }
  return all;
}

// Compares the log-probabilities of written tokens with those that they have as ids of prompts.
void expect_scored(const Model& model, at::ScalarType compute, const std::vector<Written>& all,
                   double temperature, const model::Adapter* adapter) {
  Limits limits = limits_for(model, compute, int64_t{64} << 20);
  limits.step_tokens = 37;
  Generator generator(model, compute, limits);
  for (const Written& one : all) {
    Request request;
    request.adapter = adapter;
    request.ids = one.prompt;
    request.ids.insert(request.ids.end(), one.ids.begin(), one.ids.end());
    request.sampling.max_new_tokens = 1;
    request.sampling.prompt_best = 0;
    request.sampling.prompt_temperature = temperature;
    generator.add(request);
  }
  WrittenAll to;
  while (generator.step(to)) {
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<float>& scores = to.scores[static_cast<int64_t>(i)];
    const std::span<const float> last = std::span(scores).last(all[i].ids.size());
    EXPECT_EQ(std::vector(last.begin(), last.end()), all[i].whole) << i;
  }
}

std::vector<Request> requests_of(const Model& model, size_t count, double temperature,
                                 const model::Adapter* adapter = nullptr) {
  const int64_t most = std::min<int64_t>(model.config().max_position_embeddings, 200) - 20;
  std::vector<Request> all;
  for (size_t p = 0; p < count; ++p) {
    Request& request = all.emplace_back();
    for (int64_t i = 0; i < 3 + static_cast<int64_t>(p) * 37 % (most - 3); ++i)
      request.ids.push_back(static_cast<int32_t>((i * 7 + static_cast<int64_t>(p)) % 90));
    request.sampling.max_new_tokens = 20;
    request.sampling.temperature = temperature;
    request.sampling.log_probabilities = true;
    request.adapter = adapter;
    request.stream = p;
  }
  return all;
}

// The documents as one batch of training, and the targets that generation wrote.
struct Batch {
  model::ForwardInput input;
  kernels::HeadTargets targets;
  std::vector<float> whole;
  explicit Batch(const std::vector<Written>& all) {
    std::vector<std::vector<int32_t>> rows;
    int64_t first = 0;
    for (const Written& one : all) {
      std::vector<int32_t>& row = rows.emplace_back(one.prompt);
      row.insert(row.end(), one.ids.begin(), one.ids.end());
      for (size_t i = 0; i < one.ids.size(); ++i) {
        targets.rows.push_back(
            static_cast<int32_t>(first + std::ssize(one.prompt) + static_cast<int64_t>(i) - 1));
        targets.tokens.push_back(one.ids[i]);
        whole.push_back(one.whole[i]);
      }
      first += std::ssize(row);
    }
    input = test::forward_input(rows);
  }
};

// The largest difference between the log-probabilities of a training step and those of generation.
double gap(Model& model, const Batch& batch, model::ForwardOptions options, double temperature) {
  for (tensor::Parameter* p : model.all_parameters())
    p->begin_training(p->trainable && p->encoded() == nullptr ? at::zeros(p->shape()) : at::Tensor());
  const model::Output output = model.forward(batch.input, options);
  kernels::HeadOptions head = model.head_options(options.compute, output.head);
  head.temperature = temperature;
  head.as_generated = options.as_generated;
  std::vector<kernels::TokenValues> values;
  const at::Tensor loss =
      kernels::head_loss(output.hidden, *output.head.weight, batch.targets, {}, head, &values);
  loss.backward();  // recomputes layers
  for (tensor::Parameter* p : model.all_parameters()) p->end_training();
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i)
    largest = std::max(largest, std::abs(values[i].log_prob - static_cast<double>(batch.whole[i])));
  return largest;
}

struct Precision {
  const char* name;
  const char* dtype;
  at::ScalarType compute;
  double limit;  // of the gap without exactness
};
constexpr Precision kPrecisions[] = {{"float32", "float32", at::kFloat, 1e-3},
                                     {"autocast", "float32", at::kBFloat16, 0.5},
                                     {"bfloat16", "bfloat16", at::kBFloat16, 0.5}};

class ExactModels : public testing::TestWithParam<const char*> {};

TEST_P(ExactModels, TrainingHasTheLogProbabilitiesOfGeneration) {
  for (const Precision& precision : kPrecisions) {
    for (const bool lora : {false, true}) {
      SCOPED_TRACE(testing::Message() << precision.name << (lora ? ", LoRA" : ", full"));
      const Opened model(GetParam(), precision.dtype);
      const model::Adapter* const adapter = lora ? add_adapter(*model, "own", 3) : nullptr;
      if (lora) model->train_only(model->adapters().get("own"));
      for (const double temperature : {1.0, 0.7}) {
        const std::vector<Written> all =
            written(*model, precision.compute, requests_of(*model, 6, temperature, adapter));
        expect_scored(*model, precision.compute, all, temperature, adapter);
        const Batch batch(all);
        model::ForwardOptions options{.compute = precision.compute,
                                      .recompute = {config::Recomputed::layers}};
        options.adapter = adapter;
        const double usual = gap(*model, batch, options, temperature);
        options.as_generated = true;
        EXPECT_EQ(gap(*model, batch, options, temperature), 0);
        options.tiles.mlp_tokens = 1;
        EXPECT_EQ(gap(*model, batch, options, temperature), 0);
        EXPECT_LT(usual, precision.limit);
        if (temperature == 1)
          printf("%s, %s, %s: gap without generation_exact %.2g\n", GetParam(), precision.name,
                 lora ? "LoRA" : "full", usual);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ExactModels,
                         testing::Values("llama", "qwen2", "qwen3", "qwen3_moe", "gemma2", "gpt2",
                                         "qwen2_moe", "mixtral"),
                         [](const auto& one) { return std::string(one.param); });

TEST(Exactness, HoldsUponQuantisedWeights) {
  for (const config::WeightForm form : {config::WeightForm::nf4, config::WeightForm::int8}) {
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(form) << " " << compute);
      const Opened model("qwen2", "float32", {.form = form});
      const model::Adapter* const adapter = add_adapter(*model, "own", 3);
      model->train_only(model->adapters().get("own"));
      const Batch batch(written(*model, compute, requests_of(*model, 6, 1, adapter)));
      model::ForwardOptions options{.compute = compute};
      options.as_generated = true;
      EXPECT_EQ(gap(*model, batch, options, 1), 0);
    }
  }
}

TEST(Exactness, HoldsWithProductsInInt8) {
  if (!kernels::has_int8_products()) GTEST_SKIP() << "no AVX512-VNNI";
  const Opened model("qwen2", "bfloat16");
  const model::Adapter* const adapter = add_adapter(*model, "own", 3);
  model->train_only(model->adapters().get("own"));
  const std::shared_ptr<void> int8 = model->multiply_in_int8();
  const Batch batch(written(*model, at::kBFloat16, requests_of(*model, 6, 1, adapter)));
  model::ForwardOptions options{.compute = at::kBFloat16};
  options.as_generated = true;
  EXPECT_EQ(gap(*model, batch, options, 1), 0);
}

// With a head of its own, and with one that is the embedding and caps logits.
TEST(Exactness, HoldsWithTheHeadInFloat32) {
  for (const char* const name : {"qwen3", "qwen2", "gemma2"}) {
    for (const Precision& precision : kPrecisions) {
      SCOPED_TRACE(testing::Message() << name << ", " << precision.name);
      const Opened model(name, precision.dtype);
      const auto requests = requests_of(*model, 6, 0.7);
      const Batch before(written(*model, precision.compute, requests));
      const std::shared_ptr<void> wide = model->compute_head_in_float32();
      const Batch batch(written(*model, precision.compute, requests));
      model::ForwardOptions options{.compute = precision.compute};
      options.as_generated = true;
      EXPECT_EQ(gap(*model, batch, options, 0.7), 0);
      if (std::string_view(precision.dtype) == "float32") {
        EXPECT_EQ(batch.whole == before.whole, precision.compute == at::kFloat);
      }
    }
  }
}

TEST(TheHeadInFloat32, GivesTheLogitsOfItsValues) {
  for (const Precision& precision : kPrecisions) {
    SCOPED_TRACE(precision.name);
    const Opened model("qwen2", precision.dtype);
    const at::NoGradGuard no_graph;
    const Batch batch(written(*model, precision.compute, requests_of(*model, 3, 1)));
    const model::Output output = model->forward(batch.input, {.compute = precision.compute});
    const at::Tensor want = output.hidden.to(at::kDouble).matmul(model->head().read()->to(at::kDouble).t());
    const auto error = [&] {
      return (model->logits(output, precision.compute).to(at::kDouble) - want).abs().max().item<double>() /
             want.abs().max().item<double>();
    };
    const double usual = error();
    std::shared_ptr<void> wide = model->compute_head_in_float32();
    EXPECT_LT(error(), 2e-6);
    wide.reset();
    EXPECT_EQ(error(), usual);
  }
}

// A copy of the head for generation may have been made before.
TEST(TheHeadInFloat32, TakesThePlaceOfItsCopy) {
  const Opened model("qwen2");
  const std::shared_ptr<void> wide = model->compute_head_in_float32();
  model::UsedHead head{&model->head()};
  model::NarrowWeights narrow = model->narrow_weights(*model::narrow_type("bfloat16"), true);
  narrow.refresh();
  head.narrow = narrow.of(head.weight);
  EXPECT_NE(head.narrow, nullptr);
  EXPECT_EQ(model->head_options(at::kBFloat16, head).narrow, nullptr);
  EXPECT_EQ(model->head_options(at::kBFloat16, head).compute, at::kFloat);
}

TEST(MixturesOfExperts, WriteTheSameBesideAnyOthers) {
  for (const char* const name : {"qwen3_moe", "qwen2_moe", "mixtral"}) {
    for (const config::WeightForm form : {config::WeightForm::numbers, config::WeightForm::nf4}) {
      for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
        for (const bool lora : {false, true}) {
          SCOPED_TRACE(testing::Message() << name << " " << static_cast<int>(form) << " " << compute << lora);
          const Opened model(name, "float32", {.form = form});
          const model::Adapter* const adapter = lora ? add_adapter(*model, "own", 3) : nullptr;
          const std::vector<Request> requests = requests_of(*model, 9, 1, adapter);
          const std::vector<Written> together = written(*model, compute, requests);
          for (const int64_t rows : {5, 17}) EXPECT_EQ(written(*model, compute, requests, rows), together);
          for (size_t i = 0; i < requests.size(); ++i)
            EXPECT_EQ(written(*model, compute, {requests[i]})[0], together[i]) << i;
        }
      }
    }
  }
}

// Adapters of every kind in one batch; those that only add terms to projections share their products.
TEST(AdaptersInOneBatch, WriteAsAlone) {
  for (const char* const name : {"qwen2", "gpt2", "qwen3_moe"}) {
    for (const Precision& precision : kPrecisions) {
      SCOPED_TRACE(testing::Message() << name << " " << precision.name);
      const Opened model(name, precision.dtype);
      const bool conv = std::string(name) == "gpt2", moe = model->config().experts.count > 0;
      const std::string some = std::string(R"("target_modules": )") +
                               (conv ? R"(["c_attn", "c_proj"])" : R"(["q_proj", "o_proj"])");
      const std::vector<const model::Adapter*> adapters = {
          nullptr, add_adapter(*model, "all", 3), add_adapter(*model, "few", 5, some),
          add_adapter(*model, "dora", 4, some + R"(, "use_dora": true)"),
          add_adapter(*model, "norm", 6,
                      some + R"(, "modules_to_save": [")" + (conv ? "ln_f" : "norm") + R"("])")};
      EXPECT_TRUE(model->only_adds_terms(nullptr));
      EXPECT_EQ(model->only_adds_terms(adapters[1]), !moe);
      EXPECT_TRUE(model->only_adds_terms(adapters[2]));
      EXPECT_TRUE(model->only_adds_terms(adapters[3]));
      EXPECT_FALSE(model->only_adds_terms(adapters.back()));
      std::vector<Request> requests = requests_of(*model, 12, 1);
      for (size_t i = 0; i < requests.size(); ++i) requests[i].adapter = adapters[i * 3 % adapters.size()];
      const std::vector<Written> together = written(*model, precision.compute, requests, 40);
      for (size_t i = 0; i < requests.size(); ++i)
        EXPECT_EQ(written(*model, precision.compute, {requests[i]})[0], together[i]) << i;
      EXPECT_NE(together[0].whole, together[1].whole);
    }
  }
}

}  // namespace
}  // namespace trl::generate
