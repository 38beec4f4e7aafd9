// The feed-forward part by tiles of tokens: every bit as with all tokens at once, and what is as wide as it
// is does not grow with the tokens.
#include <gtest/gtest.h>

#include "config/lora_config.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/nll_loss.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/seeded_model.h"
#include "tensor/counting_host.h"
#include "tensor/memory/counted.h"

namespace trl::model {
namespace {

constexpr int64_t kNever = int64_t{1} << 40;

struct ManyRows {
  ForwardInput input;
  at::Tensor targets;
};

// Two tiles and a rest, in documents of 60 tokens.
ManyRows many_rows(int32_t vocab, int64_t tokens = 2 * kernels::kSumPiece + 276) {
  std::vector<std::vector<int32_t>> rows(static_cast<size_t>(tokens / 60));
  std::vector<int32_t> targets;
  for (size_t row = 0; row < rows.size(); ++row) {
    for (int32_t i = 0; i < 60; ++i) {
      rows[row].push_back((7 * i + 5 * static_cast<int32_t>(row) + 3) % vocab);
      targets.push_back(i < 59 ? (11 * i + static_cast<int32_t>(row)) % vocab : -100);
    }
  }
  return {test::forward_input(rows), test::int_tensor(targets)};
}

// Hidden states and gradients.
std::vector<at::Tensor> results(Model& model, const ForwardOptions& options) {
  const ManyRows rows = many_rows(static_cast<int32_t>(model.config().vocab_size));
  for (Parameter* p : model.all_parameters())
    p->begin_training(p->trainable ? at::zeros(p->shape(), p->dtype()) : at::Tensor());
  const Output output = model.forward(rows.input, options);
  test::nll_loss(output.hidden, model.head(), rows.targets, 0.01, model.head_options(options.compute),
                 nullptr)
      .backward();
  std::vector<at::Tensor> all{output.hidden.detach()};
  for (Parameter* p : model.all_parameters()) {
    if (p->has_gradient()) all.push_back(p->gradient());
    p->end_training();
  }
  return all;
}

void expect_same(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(at::equal(got[i], want[i])) << i << " of " << got.size();
    EXPECT_GT(want[i].abs().max().item<double>(), 0) << i;
  }
}

void expect_same_bits(Model& model, at::ScalarType compute) {
  ForwardOptions options{.compute = compute, .random = 7};
  options.tiles.mlp_tokens = kNever;
  const std::vector<at::Tensor> want = results(model, options);
  using config::Recomputed;
  for (const Recomputed form :
       {Recomputed::nothing, Recomputed::layers, Recomputed::selective, Recomputed::products}) {
    options.recompute = {form};
    options.tiles.mlp_tokens = 1;
    expect_same(results(model, options), want);
  }
  options.tiles.mlp_tokens = kNever;
  expect_same(results(model, options), want);
}

TEST(Tiles, ChangeNoBit) {
  for (const char* name : {"llama_bias_linear", "gemma2", "gpt2_dropout", "phi3_dropout", "gpt_neox_dropout",
                           "stablelm_parallel", "olmo2", "cohere"}) {
    const test::SeededModel seeded(name);
    for (const auto& [dtype, compute] :
         {std::pair{"float32", at::kFloat}, {"float32", at::kBFloat16}, {"bfloat16", at::kBFloat16}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", name, dtype, c10::toString(compute)));
      expect_same_bits(*Model::open(seeded.directory.path(), dtype), compute);
    }
  }
}

TEST(Tiles, ChangeNoBitOfAnAdapter) {
  const test::SeededModel seeded("llama_bias_linear");
  for (const char* json : {R"({"r": 4, "target_modules": "all-linear"})",
                           R"({"r": 4, "target_modules": "all-linear", "lora_dropout": 0.3})",
                           R"({"r": 4, "target_modules": "all-linear", "use_dora": true})",
                           R"({"r": 4, "target_modules": ["down_proj", "up_proj"], "lora_bias": true})"}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(fmt::format("{} {}", json, c10::toString(type)));
      const auto model = Model::open(seeded.directory.path(), "bfloat16");
      const config::LoraConfig config =
          config::read_lora_config(base::Json::parse(json), "test", Status::format);
      Adapter& adapter = model->adapters().add("default", config, type);
      adapter.start(3);
      for (Parameter* p : adapter.parameters()) {
        if (p->name.find("lora_B") == std::string::npos) continue;
        p->write()->copy_((at::rand(p->read()->sizes()) - 0.5) * 0.2);
      }
      model->train_only(adapter);
      expect_same_bits(*model, at::kBFloat16);
    }
  }
}

// What a layer has at once, beside the layer inputs: twice the tokens may need twice as much of what is as
// wide as the stream, but not of what is as wide as the feed-forward part (here 32 times as wide).
TEST(Tiles, BoundWhatIsAsWideAsTheFeedForwardPart) {
  test::SeededModel seeded("llama_yarn_mscale");
  base::Json config = seeded.json["config"];
  constexpr int64_t kWidth = 2048;  // far beyond all else that a token has in a layer
  config["intermediate_size"] = kWidth;
  base::write_file(seeded.directory / "config.json", config.dump());
  std::vector<io::NamedTensor> named;
  std::vector<std::vector<float>> wide(seeded.tensors.size());
  for (size_t i = 0; i < seeded.tensors.size(); ++i) {
    test::SeededTensor& tensor = seeded.tensors[i];
    for (int64_t& size : tensor.shape) size = size == 40 ? kWidth : size;
    wide[i].assign(static_cast<size_t>(c10::multiply_integers(tensor.shape)), 0.02f);
    named.push_back({tensor.name, io::ElementType::f32, tensor.shape, wide[i].data()});
  }
  io::write_safetensors(seeded.directory / "model.safetensors", named);
  const auto model = Model::open(seeded.directory.path(), "bfloat16");
  for (Parameter* p : model->parameters()) p->begin_training(at::zeros(p->shape(), p->dtype()));
  const auto peak = [&](int64_t tokens, const ForwardOptions& options) {
    test::CountingHost host;
    tensor::set_host(&host);
    {
      const ManyRows rows = many_rows(static_cast<int32_t>(model->config().vocab_size), tokens);
      const at::Tensor hidden = model->forward(rows.input, options).hidden;
      kernels::HeadOptions head = model->head_options(at::kBFloat16);
      head.tile_rows = 64;
      const at::Tensor loss = test::nll_loss(hidden, model->head(), rows.targets, 0.01, head, nullptr);
      loss.backward();
    }
    tensor::set_host(nullptr);
    return host.counter.peak();
  };
  constexpr int64_t kTokens = 4 * kernels::kSumPiece, kWide = kWidth * 2;
  for (const config::Recomputed form : {config::Recomputed::layers, config::Recomputed::nothing}) {
    ForwardOptions options{.compute = at::kBFloat16, .recompute = {form}};
    options.tiles.mlp_tokens = kernels::kSumPiece;
    const int64_t more = peak(2 * kTokens, options) - peak(kTokens, options);
    EXPECT_LT(more, kTokens * kWide) << "bytes more for twice the tokens, form " << static_cast<int>(form);
    options.tiles.mlp_tokens = kNever;
    EXPECT_GT(peak(2 * kTokens, options) - peak(kTokens, options), 4 * kTokens * kWide);
  }
}

}  // namespace
}  // namespace trl::model
