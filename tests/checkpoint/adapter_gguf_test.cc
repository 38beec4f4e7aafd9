// An adapter as a GGUF file: what llama.cpp will add to a weight is what the adapter adds.
#include "checkpoint/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/files/files.h"
#include "base/json/json.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "io/temporary_file.h"
#include "model/files/open.h"
#include "model/gguf/names.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/seeded_model.h"

namespace trl::checkpoint {
namespace {

using test::TemporaryDirectory;

struct Matrix {
  std::vector<int64_t> shape;
  std::vector<float> values;
  float at(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * shape[1] + column)]; }
};

struct Written {
  Matrix a, b;
  double scaling;
};

// A directory with the adapter of the given modules, [out, in] each: numbers that no two places share.
class AdapterDirectory {
 public:
  AdapterDirectory(const base::Json& config,
                   const std::map<std::string, std::pair<int64_t, int64_t>>& modules,
                   const std::map<std::string, int64_t>& ranks, const std::string& a = ".lora_A.weight",
                   const std::string& b = ".lora_B.weight") {
    directory_.write("adapter_config.json", config.dump());
    float next = 0.25f;
    const auto fill = [&](const std::string& name, int64_t rows, int64_t columns) {
      Matrix& matrix = matrices_[name];
      matrix.shape = {rows, columns};
      for (int64_t i = 0; i < rows * columns; ++i) matrix.values.push_back(next += 0.125f);
    };
    for (const auto& [name, size] : modules) {
      fill("base_model.model." + name + a, ranks.at(name), size.second);
      fill("base_model.model." + name + b, size.first, ranks.at(name));
    }
    std::vector<io::NamedTensor> tensors;
    for (const auto& [name, matrix] : matrices_)
      tensors.push_back({name, io::ElementType::f32, matrix.shape, matrix.values.data(), {}});
    io::write_safetensors(directory_.file("adapter_model.safetensors"), tensors);
  }
  const std::string& path() const { return directory_.path(); }
  std::string file(std::string_view name) const { return directory_.file(name); }
  const Matrix& matrix(const std::string& name) const { return matrices_.at("base_model.model." + name); }

 private:
  TemporaryDirectory directory_;
  std::map<std::string, Matrix> matrices_;
};

Matrix matrix_of(const io::Gguf& file, const std::string& name) {
  const io::GgufTensor& tensor = file.tensors().at(name);
  Matrix matrix{tensor.shape, std::vector<float>(static_cast<size_t>(tensor.shape[0] * tensor.shape[1]))};
  io::dequantize(tensor, 0, std::ssize(matrix.values), matrix.values.data());
  return matrix;
}

// What y gets of x's column: scale b a.
double product(const Matrix& a, const Matrix& b, double scale, int64_t row, int64_t column) {
  double sum = 0;
  for (int64_t k = 0; k < a.shape[0]; ++k)
    sum += static_cast<double>(b.at(row, k)) * static_cast<double>(a.at(k, column));
  return sum * scale;
}

TEST(AdapterGguf, HoldsWhatTheAdapterAddsToEachWeight) {
  const std::string base = test::golden_path("models/llama");
  const std::string q = "model.layers.0.self_attn.q_proj", v = "model.layers.1.self_attn.v_proj",
                    down = "model.layers.1.mlp.down_proj";
  const base::Json config = {{"r", 4},
                             {"lora_alpha", 6},
                             {"use_rslora", true},
                             {"target_modules", {q, v, down}},
                             {"rank_pattern", {{"v_proj", 2}}},
                             {"alpha_pattern", {{"down_proj", 20}}}};
  const std::map<std::string, int64_t> ranks = {{q, 4}, {v, 2}, {down, 4}};
  const AdapterDirectory adapter(config, {{q, {64, 64}}, {v, {32, 64}}, {down, {64, 112}}}, ranks);
  convert_adapter_to_gguf(adapter.path(), base, adapter.file("out.gguf"), "auto", nullptr);

  const io::Gguf file(adapter.file("out.gguf"));
  EXPECT_EQ(file.text("general.type"), "adapter");
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.text("adapter.type"), "lora");
  EXPECT_EQ(file.tensors().size(), 6u);
  const model::GgufOrder order(model::open_files(base).files.config);
  const std::map<std::string, std::pair<std::string, double>> names = {
      {q, {"blk.0.attn_q.weight", 6 / std::sqrt(4.0)}},
      {v, {"blk.1.attn_v.weight", 6 / std::sqrt(2.0)}},
      {down, {"blk.1.ffn_down.weight", 20 / std::sqrt(4.0)}}};
  for (const auto& [name, there] : names) {
    const Matrix a = matrix_of(file, there.first + ".lora_a"), b = matrix_of(file, there.first + ".lora_b");
    EXPECT_EQ(a.shape, adapter.matrix(name + ".lora_A.weight").shape);
    // llama.cpp: adapter.lora.alpha over the rank
    const double scale = file.number("adapter.lora.alpha") / static_cast<double>(b.shape[1]);
    for (const int64_t row : {0, 1, 9, 31}) {
      const int64_t in_file = name == q ? order.in_gguf(row) : row;
      EXPECT_EQ(in_file != row, name == q && row != 0 && row != 31) << row;
      const double want = product(adapter.matrix(name + ".lora_A.weight"),
                                  adapter.matrix(name + ".lora_B.weight"), there.second, row, 5);
      EXPECT_NEAR(product(a, b, scale, in_file, 5), want, 1e-5 * want) << name << row;
    }
  }
}

// Rows of an embedding are looked up, so the first factor lies the other way round.
TEST(AdapterGguf, AnEmbeddingsFirstFactorIsTurned) {
  const std::string name = "model.embed_tokens";
  const std::string base = test::golden_path("models/qwen3");
  const int64_t rows = model::open_files(base).files.config.vocab_size;
  const AdapterDirectory adapter({{"r", 2}, {"lora_alpha", 2}, {"target_modules", {"embed_tokens"}}},
                                 {{name, {64, rows}}}, {{name, 2}}, ".lora_embedding_A", ".lora_embedding_B");
  convert_adapter_to_gguf(adapter.path(), base, adapter.file("out.gguf"), "bf16", nullptr);
  const io::Gguf file(adapter.file("out.gguf"));
  const Matrix a = matrix_of(file, "token_embd.weight.lora_a"),
               b = matrix_of(file, "token_embd.weight.lora_b");
  EXPECT_EQ(file.tensors().at("token_embd.weight.lora_a").type_name, "BF16");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{rows, 2}));
  EXPECT_EQ(b.shape, (std::vector<int64_t>{64, 2}));
  const Matrix& source = adapter.matrix(name + ".lora_embedding_A");
  EXPECT_NEAR(a.at(7, 1), source.at(1, 7), source.at(1, 7) / 128);
  EXPECT_NEAR(a.at(rows - 1, 0), source.at(0, rows - 1), source.at(0, rows - 1) / 128);
}

TEST(AdapterGguf, WhatLlamaCppHasNoPlaceForIsRefused) {
  const std::string q = "model.layers.0.self_attn.q_proj";
  const std::vector<std::pair<base::Json, std::string>> cases = {
      {{{"use_dora", true}}, "DoRA"},
      {{{"init_lora_weights", "pissa"}}, "what olora and pissa take out of the weights (init_lora_weights)"},
      {{{"bias", "all"}}, "biases"},
      {{{"lora_bias", true}}, "biases"},
      {{{"modules_to_save", {"norm"}}}, "modules that are saved whole (modules_to_save)"},
      {{{"task_type", "SEQ_CLS"}}, "the score head of a reward model (task_type SEQ_CLS)"},
      {{{"modules_to_save", {"lm_head"}}}, "modules that are saved whole (modules_to_save)"},
      {{{"trainable_token_indices", {1}}}, "single trained tokens (trainable_token_indices)"},
      {{{"target_modules", {"embed_tokens"}}}, "an adapter of an embedding that is the output head too"},
  };
  for (const auto& [fields, what] : cases) {
    base::Json config = {{"r", 2}, {"target_modules", {q}}};
    config.update(fields);
    const AdapterDirectory adapter(config, {{q, {64, 64}}}, {{q, 2}});
    const auto error = test::error_of([&] {
      convert_adapter_to_gguf(adapter.path(), test::golden_path("models/llama"), adapter.file("out.gguf"),
                              "auto", nullptr);
    });
    EXPECT_EQ(error, std::pair(Status::unsupported,
                               fmt::format("{}: llama.cpp's adapter files cannot store {}: merge the "
                                           "adapter into its model instead (save.kind merged)",
                                           adapter.path(), what)));
    EXPECT_FALSE(base::file_exists(adapter.file("out.gguf")));
  }
}

// As PEFT saves them where tokens were added: left out where the model has the same, and never otherwise.
TEST(AdapterGguf, TablesBesideTheAdapterMustBeTheModels) {
  const std::string q = "model.layers.0.self_attn.q_proj";
  for (const auto& [base, table, from] : {std::tuple{"llama3", "lm_head", "lm_head"},
                                          {"llama3", "model.embed_tokens", "model.embed_tokens"},
                                          {"llama", "lm_head", "model.embed_tokens"},
                                          {"llama", "model.embed_tokens", "model.embed_tokens"}}) {
    SCOPED_TRACE(fmt::format("{} {}", base, table));
    const std::string path = test::golden_path(std::string("models/") + base);
    const AdapterDirectory adapter({{"r", 2}, {"target_modules", {q}}}, {{q, {64, 64}}}, {{q, 2}});
    const std::string file = adapter.file("adapter_model.safetensors");
    const io::Weights weights = io::Weights::open_directory(path);
    const io::TensorView& own = *weights.find(std::string(from) + ".weight");
    std::vector<float> values(static_cast<size_t>(own.shape[0] * own.shape[1]));
    io::read_floats(own.type, own.data, 0, std::ssize(values), values.data());
    std::vector<int64_t> shape = own.shape;
    const auto write = [&] {
      const auto factor = [&](const std::string& name) {
        const Matrix& matrix = adapter.matrix(q + name);
        return io::NamedTensor{"base_model.model." + q + name, io::ElementType::f32, matrix.shape,
                               matrix.values.data()};
      };
      io::write_safetensors(file, {factor(".lora_A.weight"),
                                   factor(".lora_B.weight"),
                                   {fmt::format("base_model.model.{}.weight", table), io::ElementType::f32,
                                    shape, values.data()}});
      return test::error_of(
          [&] { convert_adapter_to_gguf(adapter.path(), path, adapter.file("out.gguf"), "f32", nullptr); });
    };
    EXPECT_EQ(write().second, "");
    EXPECT_EQ(io::Gguf(adapter.file("out.gguf")).tensors().size(), 2u);
    values.back() += 1;
    EXPECT_EQ(
        write().second,
        fmt::format("{}: llama.cpp's adapter files cannot store tensor base_model.model.{}.weight, which "
                    "differs from the model's: merge the adapter into its model instead (save.kind merged)",
                    file, table));
    values.resize(values.size() + static_cast<size_t>(shape[1]));
    shape[0] += 1;
    EXPECT_EQ(
        write().second,
        fmt::format("{}: llama.cpp's adapter files cannot store tensor base_model.model.{}.weight of shape "
                    "[449, 64], where the model has [448, 64]: merge the adapter into its model instead "
                    "(save.kind merged)",
                    file, table));
  }
}

// Of parameters as PEFT 0.21 saves them, and of the modules of single experts as it did on transformers 4.
TEST(AdapterGguf, ThoseOfExpertsAreRefused) {
  const base::Json& recorded = test::golden_json("adapters/experts.json");
  for (const char* name : {"mixtral_experts", "mixtral_all", "mixtral_old", "mixtral_old_w2"}) {
    const base::Json& one = recorded[name];
    const test::SeededModel base(one["model"].get<std::string>());
    const TemporaryDirectory adapter;
    adapter.write("adapter_config.json", one["config"].dump());
    const auto error = test::error_of([&] {
      convert_adapter_to_gguf(adapter.path(), base.directory.path(), adapter.file("out.gguf"), "auto",
                              nullptr);
    });
    EXPECT_EQ(error,
              std::pair(Status::unsupported,
                        fmt::format("{}: adapters of experts, routers and other parameters "
                                    "(target_parameters) are not written to GGUF by this version: merge "
                                    "the adapter into its model instead (save.kind merged)",
                                    adapter.path())))
        << name;
    EXPECT_FALSE(base::file_exists(adapter.file("out.gguf"))) << name;
  }
}

TEST(AdapterGguf, BlockTypesAreRefused) {
  const std::string q = "model.layers.0.self_attn.q_proj";
  const AdapterDirectory adapter({{"r", 2}, {"target_modules", {q}}}, {{q, {64, 64}}}, {{q, 2}});
  EXPECT_EQ(test::error_of([&] {
              convert_adapter_to_gguf(adapter.path(), test::golden_path("models/llama"), adapter.file("x"),
                                      "q8_0", nullptr);
            }).second,
            "type q8_0 is not written for an adapter; these are: f32, f16, bf16");
}

}  // namespace
}  // namespace trl::checkpoint
