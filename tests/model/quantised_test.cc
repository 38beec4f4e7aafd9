// Models that are quantised while they are opened: which weights are, and that everything that is computed
// with them is what the weights that they stand for give, bit by bit.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json/json.h"
#include "checkpoint/save.h"
#include "io/temporary_file.h"
#include "model/golden_batch.h"
#include "model/loader/quantised.h"
#include "model/model.h"
#include "support/seeded_model.h"
#include "support/sequence.h"

namespace trl::model {
namespace {

using config::Quantization;
using config::WeightForm;
using test::TemporaryDirectory;

struct Form {
  const char* name;
  Quantization quantization;
};
const Form kWeightForms[] = {{"NF4", {WeightForm::nf4}},
                             {"NF4", {WeightForm::nf4, true}},
                             {"FP4", {WeightForm::fp4}},
                             {"int8", {WeightForm::int8}}};

std::unique_ptr<Model> open_quantised(const std::string& path, const Quantization& form,
                                      const std::string& dtype = "float32") {
  return Model::open(path, dtype, nullptr, at::kCPU, Head::language, form);
}

at::Tensor logits(Model& model, int64_t tokens, at::ScalarType compute) {
  const at::NoGradGuard guard;
  ForwardInput input;
  input.input_ids =
      at::arange(tokens, at::kInt).remainder(std::min<int64_t>(400, model.config().vocab_size - 3)) + 3;
  input.position_ids = at::arange(tokens, at::kInt);
  input.segments =
      std::make_shared<kernels::Segments>(kernels::Segments{{0, static_cast<int32_t>(tokens)}, tokens});
  ForwardOptions options;
  options.compute = model.compute(compute);
  return model.logits(model.forward(input, options), compute);
}

// Copies a model. If the copy routes to experts, then to all of them: a comparison that a rounded bit may
// turn chooses none.
void copy_without_choice(const std::string& from, const std::string& to) {
  std::filesystem::copy(from, to);
  std::ifstream in(from + "/config.json");
  auto json = base::Json::parse(in);
  if (json.contains("num_experts_per_tok")) json["num_experts_per_tok"] = json["num_local_experts"];
  std::ofstream(to + "/config.json") << json;
}

at::Tensor decoded_steps(Model& model, at::ScalarType compute) {
  const at::NoGradGuard guard;
  test::Sequence sequence(model, model.compute(compute));
  std::vector<at::Tensor> rows{sequence.extend({5, 6, 7, 8}).hidden};
  for (const int32_t id : {9, 10, 11}) rows.push_back(sequence.extend({id}).hidden);
  return at::cat(rows);
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.equal(b) && a.scalar_type() == b.scalar_type();
}

TEST(Quantised, LinearLayersAreAndTheHeadIsNot) {
  for (const char* name : {"qwen2", "llama3", "qwen3_moe"}) {
    if (!test::has_golden(std::string("models/") + name + "/config.json")) continue;
    const auto model =
        open_quantised(test::golden_path(std::string("models/") + name), kWeightForms[0].quantization);
    int64_t count = 0;
    for (const Parameter* parameter : model->parameters()) {
      const std::string& own = parameter->name;
      const bool linear = own.find("_proj") != own.npos && !own.ends_with(".bias");
      EXPECT_EQ(parameter->encoded() != nullptr, linear) << own;
      if (!linear) continue;
      EXPECT_EQ(parameter->encoded()->form(), "NF4");
      EXPECT_FALSE(parameter->trainable);
      ++count;
    }
    EXPECT_GE(count, 8) << name;
  }
}

TEST(Quantised, GivesWhatTheWeightsThatItStandsForGive) {
  for (const char* name : {"qwen2", "llama", "qwen3_moe", "gemma2", "phi3"}) {
    if (!test::has_golden(std::string("models/") + name + "/config.json")) continue;
    const TemporaryDirectory models;
    const std::string path = models.file(name);
    copy_without_choice(test::golden_path(std::string("models/") + name), path);
    for (const Form& form : kWeightForms) {
      for (const char* dtype : {"float32", "bfloat16"}) {
        SCOPED_TRACE(
            fmt::format("{} {}{} {}", name, form.name, form.quantization.nested ? " nested" : "", dtype));
        const TemporaryDirectory directory;
        const auto quantised = open_quantised(path, form.quantization, dtype);
        checkpoint::save_model(directory.file("numbers"), *quantised, {});
        const auto numbers = Model::open(directory.file("numbers"), dtype);
        for (const Parameter* parameter : numbers->parameters()) EXPECT_EQ(parameter->encoded(), nullptr);
        EXPECT_TRUE(same(logits(*quantised, 40, at::kFloat), logits(*numbers, 40, at::kFloat)));
        // Products of rows may read codes without rounding them to bfloat16: then they are as near to
        // float32.
        const at::Tensor steps = decoded_steps(*quantised, at::kFloat);
        const at::Tensor of_numbers = decoded_steps(*numbers, at::kFloat);
        if (std::string_view(dtype) == "float32") {
          EXPECT_TRUE(same(steps, of_numbers));
        } else {
          const auto exact = open_quantised(path, form.quantization);
          const at::Tensor wanted = decoded_steps(*exact, at::kFloat);
          EXPECT_LT((steps - wanted).norm().item<double>(),
                    1.25 * (of_numbers - wanted).norm().item<double>());
        }
        const at::Tensor plain = logits(*Model::open(path, dtype), 40, at::kFloat);
        const double error =
            (logits(*quantised, 40, at::kFloat) - plain).norm().item<double>() / plain.norm().item<double>();
        EXPECT_GT(error, 1e-4);
        EXPECT_LT(error, 0.5);
      }
    }
  }
}

// Even if transformers 5 holds gate and up, and all experts, in one parameter.
TEST(Quantised, EachMatrixOfAnExpertIsByItself) {
  const test::SeededModel seeded("mixtral");
  for (const Form& form : kWeightForms) {
    const auto model = open_quantised(seeded.directory.path(), form.quantization);
    for (const test::SeededTensor& tensor : seeded.tensors) {
      const std::string start = "model.layers.1.block_sparse_moe.experts.2.";
      if (!tensor.name.starts_with(start)) continue;
      const at::Tensor values = at::tensor(tensor.values).view(tensor.shape);
      Parameter alone("alone", quantised("alone", values, form.quantization), at::kFloat);
      const bool down = tensor.name.find(".w2.") != std::string::npos;
      Parameter* all = nullptr;
      for (Parameter* parameter : model->parameters()) {
        if (parameter->name.ends_with(down ? "layers.1.mlp.experts.down_proj"
                                           : "layers.1.mlp.experts.gate_up_proj"))
          all = parameter;
      }
      ASSERT_NE(all, nullptr);
      const int64_t first = tensor.name.find(".w3.") != std::string::npos ? tensor.shape[0] : 0;
      const at::Tensor got = all->read()->select(0, 2).narrow(0, first, tensor.shape[0]);
      EXPECT_TRUE(at::equal(got, *alone.read())) << form.name << " " << tensor.name;
    }
  }
}

TEST(Quantised, NamesTheValueThatAFormCannotHold) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const std::string from = test::golden_path("models/llama");
  for (const std::string& file : base::list_directory(from))
    directory.write(file, base::read_file(base::join_path(from, file)));
  const io::Safetensors file(from + "/model.safetensors");
  std::vector<io::NamedTensor> tensors;
  std::vector<float> damaged;
  for (const auto& [name, view] : file.tensors()) {
    tensors.push_back({name, view.type, view.shape, view.data});
    if (name != "model.layers.1.mlp.up_proj.weight") continue;
    damaged.resize(view.bytes / sizeof(float));
    std::memcpy(damaged.data(), view.data, view.bytes);
    damaged[static_cast<size_t>(3 * view.shape[1] + 5)] = 1e5f;
    tensors.back().data = damaged.data();
  }
  io::write_safetensors(directory.file("model.safetensors"), tensors);
  try {
    open_quantised(directory.path(), kWeightForms[3].quantization);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::format);
    EXPECT_NE(error.message().find("tensor model.layers.1.mlp.up_proj.weight: row 3, column 5 is 100000, "),
              std::string::npos)
        << error.message();
  }
}

// Every family, also those whose weights are stored as [in, out]: saved, they are so again.
TEST(Quantised, OfEveryFamily) {
  for (const std::string& name : test::family_cases(false)) {
    if (name.ends_with("_dropout")) continue;
    SCOPED_TRACE(name);
    const test::SeededModel seeded(name);
    const std::string path = seeded.directory.path();
    for (const Form& form : {kWeightForms[1], kWeightForms[3]}) {
      const auto quantised = open_quantised(path, form.quantization);
      const TemporaryDirectory directory;
      checkpoint::save_model(directory.file("numbers"), *quantised, {});
      const io::Weights before = io::Weights::open_directory(path),
                        after = io::Weights::open_directory(directory.file("numbers"));
      for (const std::string& tensor : before.names()) {
        ASSERT_NE(after.find(tensor), nullptr) << tensor;
        EXPECT_EQ(before.find(tensor)->shape, after.find(tensor)->shape) << tensor;
      }
      const auto numbers = Model::open(directory.file("numbers"), "float32");
      const at::Tensor want = logits(*numbers, 9, at::kFloat);
      if (seeded.json["config"]["model_type"] == "gpt2") {  // whose numbers are multiplied as [in, out]
        const at::Tensor apart = (logits(*quantised, 9, at::kFloat) - want).abs().max();
        EXPECT_LT(apart.item<float>(), 2e-6 * want.abs().max().item<float>());
      } else {
        EXPECT_TRUE(same(logits(*quantised, 9, at::kFloat), want));
      }
    }
  }
}

}  // namespace
}  // namespace trl::model
