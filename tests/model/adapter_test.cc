// Adapters that PEFT saved, on the models that they belong to: logits with the adapter, without it, and
// switching between them.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>

#include <map>
#include <set>

#include "base/error.h"
#include "kernels/path.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/error_of.h"
#include "support/scratch.h"

namespace trl::model {
namespace {

using base::Json;

at::Tensor rows_at(const at::Tensor& padded, const test::GoldenBatch& batch) {
  std::vector<at::Tensor> rows;
  for (const auto& [row, column] : batch.places) rows.push_back(padded[row][column]);
  return at::stack(rows);
}

// A recorded case: the model with its adapter, named "default".
struct SavedAdapter {
  explicit SavedAdapter(const std::string& name)
      : folder("peft/" + name + "/"),
        json(test::golden_json(folder + "case.json")),
        tensors(test::golden_path(folder + "tensors.safetensors")),
        batch(test::golden_batch(json["input_ids"], json["attention_mask"])),
        model(Model::open(test::golden_path(json["model"]), "float32", nullptr, at::kCPU,
                          name == "seq_cls" ? Head::scores : Head::language)) {
    model->adapters().use(&model->adapters().open("default", test::golden_path(folder + "adapter")));
  }
  at::Tensor logits(const ForwardOptions& options = {}) {
    const at::NoGradGuard no_grad;
    const at::Tensor all = model->logits(model->forward(batch.input, options), options.compute);
    return model->config().labels > 0 ? all.index_select(0, last_of_documents()) : all;
  }
  // Of a classifier: of the last token of each document.
  at::Tensor want(const std::string& name) const {
    const at::Tensor all = test::golden_tensor(tensors, name);
    return model->config().labels > 0 ? all : rows_at(all, batch);
  }
  std::vector<at::Tensor> weights() {
    std::vector<at::Tensor> all;
    for (Parameter* parameter : model->parameters()) all.push_back(parameter->read()->clone());
    return all;
  }
  at::Tensor last_of_documents() const {
    std::vector<int64_t> last;
    for (const int32_t end : batch.input.segments->cu_seqlens) last.push_back(end - 1);
    return at::tensor(at::IntArrayRef(last).slice(1), at::kLong);
  }
  const std::string folder;
  const Json& json;
  const io::Safetensors tensors;
  const test::GoldenBatch batch;
  std::unique_ptr<Model> model;
};

void expect_peft_logits(const std::string& name) {
  SCOPED_TRACE(name);
  SavedAdapter saved(name);
  const auto used = [&](const at::Tensor& got, const char* recorded) {
    return test::used_limit(got, saved.want(recorded), test::limits::forward);
  };
  EXPECT_LE(used(saved.logits(), "logits_adapter"), 1);
  EXPECT_GT(used(saved.logits({.adapter = nullptr}), "logits_adapter"), 1);
  // PEFT trains biases of the model in place, so that they stay when its adapter is disabled; here they go
  // with it.
  if (saved.json["config"].value("bias", "none") == "none") {
    EXPECT_LE(used(saved.logits({.adapter = nullptr}), "logits_adapter_disabled"), 1);
  }
  EXPECT_LE(used(saved.logits(), "logits_adapter"), 1);
  const std::vector<at::Tensor> before = saved.weights();
  Adapters& adapters = saved.model->adapters();
  adapters.merge(adapters.get("default"));
  EXPECT_LE(used(saved.logits(), "logits_merged"), 1);
  EXPECT_GT(used(saved.logits(), "logits_adapter_disabled"), 1);
  EXPECT_THROW(adapters.use(nullptr), Error);
  adapters.unmerge();
  const std::vector<at::Tensor> after = saved.weights();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << i;
  EXPECT_LE(used(saved.logits(), "logits_adapter"), 1);
  saved.model->adapters().use(nullptr);
  const at::Tensor alone = saved.logits();
  saved.model->adapters().remove("default");
  EXPECT_TRUE(at::equal(saved.logits(), alone));
}

// How many nodes the graph of a forward has, with an adapter that only changes one kind of module in some
// layers.
size_t nodes_with(const std::string& layers, const std::string& modules = "q_proj", bool recompute = false) {
  const auto model = Model::open(test::golden_path("models/qwen2"), "float32");
  const Json config = base::parse_json(
      R"({"r": 2, "target_modules": [")" + modules + R"("], "layers_to_transform": )" + layers + "}", "test");
  Adapter& adapter =
      model->adapters().add("default", config::read_lora_config(config, "test", Status::format), at::kFloat);
  adapter.start(1);
  model->train_only(adapter);
  for (Parameter* p : model->all_parameters())
    p->begin_training(p->trainable ? at::zeros(p->shape()) : at::Tensor());
  const at::Tensor hidden =
      model
          ->forward(test::forward_input({{3, 4, 5}}),
                    {.recompute = {recompute ? config::Recomputed::layers : config::Recomputed::nothing}})
          .hidden;
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open = {hidden.grad_fn().get()};
  while (!open.empty()) {
    torch::autograd::Node* const node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  for (Parameter* p : model->all_parameters()) p->end_training();
  return seen.size();
}

TEST(AdapterGraph, BeginsWhereSomethingIsTrained) {
  TRL_NEED_GOLDEN("models/qwen2");
  const size_t all = nodes_with("[0, 1]"), first = nodes_with("[0]"), second = nodes_with("[1]");
  EXPECT_EQ(first, all);
  EXPECT_LT(second, all * 6 / 10);
  // What follows the projection that is trained: the residual sum and the last norm.
  EXPECT_EQ(nodes_with("[1]", "down_proj"), 4u);  // and where the graph begins
  EXPECT_EQ(nodes_with("[1]", "down_proj", true), 3u);
}

// The reference of preference training stays what it was, whether the adapter is trained or a part of
// weights.
TEST(AdapterCopies, StayAsTheyWere) {
  TRL_NEED_GOLDEN("models/qwen2");
  for (const char* const init : {"false", "\"pissa\""}) {
    const auto model = Model::open(test::golden_path("models/qwen2"), "float32");
    const Json config = base::parse_json(
        fmt::format(R"({{"r": 2, "target_modules": ["q_proj"], "init_lora_weights": {}}})", init), "test");
    Adapters& adapters = model->adapters();
    Adapter& adapter =
        adapters.add("default", config::read_lora_config(config, "test", Status::format), at::kFloat);
    adapter.start(1);
    Adapter& reference = adapters.copy("ref", adapter);
    model->train_only(adapter);
    const auto hidden = [&](std::optional<Adapter*> with) {
      const at::NoGradGuard no_grad;
      return model->forward(test::forward_input({{3, 4, 5}}), {.adapter = with}).hidden;
    };
    const at::Tensor alone = hidden(nullptr), before = hidden(&adapter);
    EXPECT_TRUE(at::equal(hidden(&reference), before));
    for (Parameter* p : adapter.parameters()) p->write()->add_(0.5);
    EXPECT_FALSE(at::allclose(hidden({}), before, 1e-3, 1e-3));
    EXPECT_TRUE(at::equal(hidden(&reference), before));
    EXPECT_TRUE(at::equal(hidden(nullptr), alone));
    for (const Parameter* p : reference.parameters()) EXPECT_FALSE(p->trainable) << p->name;
    EXPECT_THROW(adapters.copy("ref", adapter), Error);
  }
}

// Tokens that are trained by themselves, as PEFT 0.21 does it: embeddings of a llama whose head is its own.
TEST(AdapterTokens, HaveRowsOfTheirOwn) {
  TRL_NEED_GOLDEN("models/llama3");
  const auto model = Model::open(test::golden_path("models/llama3"), "float32");
  const Json config = base::parse_json(
      R"({"r": 2, "target_modules": ["q_proj"], "trainable_token_indices": [4, 9]})", "test");
  Adapters& adapters = model->adapters();
  Adapter& adapter =
      adapters.add("default", config::read_lora_config(config, "test", Status::format), at::kFloat);
  adapter.start(1);
  const auto hidden = [&](std::optional<Adapter*> with) {
    const at::NoGradGuard no_grad;
    return model->forward(test::forward_input({{3, 4, 5}}), {.adapter = with}).hidden;
  };
  const at::Tensor alone = hidden(nullptr);
  EXPECT_TRUE(at::equal(hidden(&adapter), alone));  // they begin as the table's
  model->train_only(adapter);
  for (Parameter* p : model->all_parameters())
    p->begin_training(p->trainable ? at::zeros(p->shape()) : at::Tensor());
  Parameter* rows = nullptr;
  for (Parameter* p : adapter.parameters()) {
    if (p->name.ends_with("trainable_tokens_delta")) rows = p;
  }
  ASSERT_NE(rows, nullptr);
  ASSERT_EQ(rows->shape(), at::IntArrayRef({2, 64}));
  for (const kernels::Path path : {kernels::Path::fused, kernels::Path::plain}) {
    const kernels::PathScope scope(path);
    rows->gradient().zero_();
    model->forward(test::forward_input({{3, 4, 5}}), {}).hidden.sum().backward();
    EXPECT_GT(rows->gradient()[0].abs().sum().item<float>(), 0);  // of token 4
    EXPECT_EQ(rows->gradient()[1].abs().sum().item<float>(), 0);  // token 9 was not there
  }
  rows->write()->add_(1);
  EXPECT_FALSE(at::equal(hidden(&adapter), alone));
  EXPECT_TRUE(at::equal(hidden(nullptr), alone));
  const at::Tensor with = hidden(&adapter);
  for (Parameter* p : model->all_parameters()) p->end_training();
  adapters.merge(adapter);
  EXPECT_TRUE(at::equal(hidden(&adapter), with));
  adapters.unmerge();
  EXPECT_TRUE(at::equal(hidden(nullptr), alone));
}

// An adapter that began as a part of the weights and was saved as it is. PEFT 0.21.2 takes that part out of
// the weights again when it opens one: the numbers are the last hidden state of token 5 behind 3 and 4,
// there.
struct Unconverted {
  const char* fields;
  std::array<double, 6> last;
};
constexpr Unconverted kUnconverted[] = {
    {R"("init_lora_weights": "olora")", {0.572535, 0.15929, 0.326866, -0.968659, -0.337301, 3.136799}},
    {R"("init_lora_weights": "pissa", "use_rslora": true)",
     {0.790499, -0.341714, 0.143966, -1.01814, -0.776044, 0.963047}},
    {R"("init_lora_weights": true)", {1.121751, 0.39624, 0.271247, -0.739624, -0.003308, 1.816548}}};

void write_unconverted(const test::Scratch& directory, const std::string& fields) {
  base::write_file(
      directory / "adapter_config.json",
      R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj"], )" + fields +
          "}");
  std::map<std::string, at::Tensor> values;
  for (const int layer : {0, 1}) {
    for (const auto& [module, out] : {std::pair{"q_proj", 64}, {"v_proj", 32}}) {
      const std::string name =
          fmt::format("base_model.model.model.layers.{}.self_attn.{}.lora_", layer, module);
      const auto made = [](int64_t rows, int64_t columns, int64_t factor) {
        const at::Tensor places = at::arange(rows).unsqueeze(1) * factor + at::arange(columns) * 3;
        return ((places % 11 - 5).to(at::kFloat) / 40).contiguous();
      };
      values[name + "A.weight"] = made(2, 64, 7);
      values[name + "B.weight"] = made(out, 2, 5);
    }
  }
  std::vector<io::NamedTensor> named;
  for (const auto& [name, tensor] : values)
    named.push_back({name, io::ElementType::f32, tensor.sizes().vec(), tensor.data_ptr()});
  io::write_safetensors(directory / "adapter_model.safetensors", named);
}

TEST(Unconverted, AreOpenedAsPeftOpensThem) {
  TRL_NEED_GOLDEN("models/qwen2");
  for (const Unconverted& one : kUnconverted) {
    SCOPED_TRACE(one.fields);
    const test::Scratch directory;
    write_unconverted(directory, one.fields);
    const auto model = Model::open(test::golden_path("models/qwen2"), "float32");
    const auto last = [&](std::optional<Adapter*> with) {
      const at::NoGradGuard no_grad;
      return model->forward(test::forward_input({{3, 4, 5}}), {.adapter = with}).hidden[2].clone();
    };
    const at::Tensor alone = last(nullptr);
    Adapter& adapter = model->adapters().open("default", directory.path());
    const at::Tensor with = last(&adapter);
    for (size_t i = 0; i < one.last.size(); ++i)
      EXPECT_NEAR(with[static_cast<int64_t>(i)].item<double>(), one.last[i], 2e-5) << i;
    EXPECT_TRUE(at::equal(last(nullptr), alone));
    model->adapters().merge(adapter);
    EXPECT_TRUE(at::allclose(last(&adapter), with, 1e-4, 1e-4));
    model->adapters().unmerge();
    EXPECT_TRUE(at::equal(last(nullptr), alone));
  }
}

// What was found with random numbers, and what weights in blocks would have to give up.
TEST(Unconverted, ThatCannotBeTakenOutAgainAreRefused) {
  TRL_NEED_GOLDEN("models/qwen2");
  const test::Scratch directory;
  const auto error = [&](const config::Quantization& quantization) {
    const auto model = Model::open(test::golden_path("models/qwen2"), "float32", nullptr, at::kCPU,
                                   Head::language, quantization);
    const auto out = test::error_of([&] { model->adapters().open("default", directory.path()); });
    EXPECT_EQ(model->adapters().find("default"), nullptr);
    return out.second;
  };
  write_unconverted(directory, R"("init_lora_weights": "pissa_niter_4")");
  EXPECT_EQ(
      error({}),
      directory.path() +
          ": init_lora_weights: pissa_niter_4 took a part out of the weights that was found with random "
          "numbers, and the adapter's files do not hold it: convert the adapter to plain LoRA with PEFT "
          "(path_initial_model_for_weight_conversion)");
  write_unconverted(directory, R"("init_lora_weights": "pissa")");
  EXPECT_EQ(error({.form = config::WeightForm::int8}),
            directory.path() +
                ": init_lora_weights: the adapter began as a part of the weights and belongs to what is left "
                "of them, and model.layers.0.self_attn.q_proj is held as int8, which is never changed: open "
                "the model in float32 or bfloat16, or convert the adapter to plain LoRA with PEFT "
                "(path_initial_model_for_weight_conversion)");
}

TEST(Peft, LogitsWithAnAdapterWithoutItAndMerged) {
  TRL_NEED_GOLDEN("peft/dora/case.json");
  for (const char* name : {"all_linear", "bias_all", "dora", "seq_cls", "bias_lora_only", "embedding",
                           "exclude_modules", "gpt2_conv1d", "layers_to_transform", "list_qv",
                           "modules_to_save", "phi3_fused", "rank_alpha_pattern", "regex", "rslora"})
    expect_peft_logits(name);
}

}  // namespace
}  // namespace trl::model
