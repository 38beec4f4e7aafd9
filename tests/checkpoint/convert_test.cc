// Recorded models from a directory to GGUF and back: the same weights bit by bit, the same ids; and what a
// GGUF file holds in each type.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "checkpoint/converted.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/save.h"
#include "data/tokenizer/open_tokenizer.h"
#include "io/gguf.h"
#include "io/gguf_types.h"
#include "io/temporary_file.h"
#include "support/golden.h"
#include "support/warnings.h"

namespace trl::checkpoint {
namespace {

using base::Json;
using test::TemporaryDirectory;

std::string model_path(const std::string& name) { return test::golden_path("models/" + name); }

struct Encoded {
  explicit Encoded(const std::string& path)
      : tokenizer(data::open_tokenizer(path)),
        pairs(data::gguf_vocabulary(
            *tokenizer, base::read_json_file(path + "/config.json").at("vocab_size").get<int64_t>(), path,
            nullptr)) {}
  engine::GgufVocabulary view() const {
    return {pairs.count(), pairs.bytes(), tokenizer->special_id(tokenizer->special().eos).value_or(-1)};
  }
  std::unique_ptr<text::Tokenizer> tokenizer;
  io::GgufPairs pairs;
};

void to_gguf(const std::string& path, const std::string& target, std::string_view type,
             base::LogSink* log = nullptr) {
  const Encoded encoded(path);
  convert_to_gguf(path, target, type, encoded.view(), log);
}

void expect_same(const std::string& got_path, const std::string& want_path) {
  const auto got = model::Model::open(got_path, "float32"), want = model::Model::open(want_path, "float32");
  ASSERT_EQ(got->parameters().size(), want->parameters().size());
  for (size_t i = 0; i < got->parameters().size(); ++i) {
    EXPECT_EQ(got->parameters()[i]->name, want->parameters()[i]->name);
    EXPECT_TRUE(at::equal(*got->parameters()[i]->read(), *want->parameters()[i]->read()))
        << got->parameters()[i]->name;
  }
  EXPECT_EQ(std::set(got->end_ids().begin(), got->end_ids().end()),
            std::set(want->end_ids().begin(), want->end_ids().end()));
}

void expect_same_ids(const std::string& got_path, const std::string& want_path) {
  const auto got = data::open_tokenizer(got_path), want = data::open_tokenizer(want_path);
  for (const char* text : {"", "Once upon a time", " 12345 caf\xC3\xA9\n\n  x", "don't WE'LL \xE4\xBD\xA0"}) {
    EXPECT_EQ(got->encode(text, true), want->encode(text, true)) << text;
  }
  EXPECT_EQ(got->chat_templates(), want->chat_templates());
  EXPECT_EQ(got->special().eos, want->special().eos);
  EXPECT_EQ(got->special().pad, want->special().pad);
}

TEST(Convert, ThereAndBackIsTheSameModel) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  for (const std::string name : {"llama", "llama3", "llama_sharded", "qwen2", "qwen2_bf16", "qwen3"}) {
    SCOPED_TRACE(name);
    const std::string file = directory.file(name + ".gguf"), back = directory.file(name);
    to_gguf(model_path(name), file, "f32");
    expect_same(file, model_path(name));
    expect_same_ids(file, model_path(name));
    const auto files = data::open_tokenizer(file)->files();
    std::vector<engine::NamedBytes> named;
    for (const auto& [file_name, bytes] : files) named.push_back({file_name, bytes});
    convert_to_directory(file, back, "auto", named, nullptr);
    expect_same(back, model_path(name));
    expect_same_ids(back, model_path(name));
    const Json config = base::read_json_file(back + "/config.json");
    const Json original = base::read_json_file(model_path(name) + "/config.json");
    for (const char* key :
         {"model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
          "num_key_value_heads", "max_position_embeddings", "tie_word_embeddings"})
      EXPECT_EQ(config.at(key), original.at(key)) << key;
    EXPECT_EQ(config.at("dtype"), "float32");
  }
}

TEST(Convert, TheTypeIsThatOfTheFilesUnlessAsked) {
  TRL_NEED_GOLDEN("models/qwen2_bf16/config.json");
  const TemporaryDirectory directory;
  const std::string path = model_path("qwen2_bf16"), file = directory.file("m.gguf");
  to_gguf(path, file, "auto");
  EXPECT_EQ(io::Gguf(file).tensors().at("blk.0.ffn_up.weight").type_name, "BF16");
  EXPECT_EQ(io::Gguf(file).tensors().at("blk.0.attn_norm.weight").type_name, "F32");
  EXPECT_EQ(io::Gguf(file).integer("general.file_type"), 32);
  expect_same(file, path);
  convert_to_directory(file, directory.file("back"), "auto", {}, nullptr);
  EXPECT_EQ(base::read_json_file(directory.file("back/config.json")).at("dtype"), "bfloat16");
  expect_same(directory.file("back"), path);
  convert_to_directory(file, directory.file("half"), "f16", {}, nullptr);
  EXPECT_EQ(io::Weights::open_directory(directory.file("half")).find("model.norm.weight")->type_name, "F16");
}

// Blocks are those of the recorded quantiser (tests/io/gguf_blocks_test.cc), of rows in GGUF's order.
TEST(Convert, BlockTypes) {
  TRL_NEED_GOLDEN("models/llama_sharded/config.json");
  const TemporaryDirectory directory;
  const std::string path = model_path("llama_sharded");
  to_gguf(path, directory.file("f32.gguf"), "f32");
  const io::Gguf whole(directory.file("f32.gguf"));
  for (const std::string type : {"q8_0", "q4_0"}) {
    SCOPED_TRACE(type);
    to_gguf(path, directory.file("m.gguf"), type);
    const io::Gguf file(directory.file("m.gguf"));
    const std::string upper = type == "q8_0" ? "Q8_0" : "Q4_0";
    EXPECT_EQ(file.tensors().at("blk.1.attn_k.weight").type_name, upper);
    EXPECT_EQ(file.tensors().at("blk.1.attn_k.bias").type_name, "F32");
    EXPECT_EQ(file.tensors().at("token_embd.weight").type_name, "Q8_0");
    EXPECT_EQ(file.tensors().at("output.weight").type_name, "Q8_0");
    EXPECT_EQ(file.integer("general.file_type"), type == "q8_0" ? 7 : 2);
    EXPECT_EQ(file.integer("general.quantization_version"), 2);
    for (const auto& [name, tensor] : file.tensors()) {
      const io::GgufTensor& from = whole.tensors().find(name)->second;
      std::vector<float> values(from.bytes / 4);
      io::dequantize(from, 0, std::ssize(values), values.data());
      std::vector<uint8_t> want(tensor.bytes);
      io::quantize(*io::find_ggml_type(tensor.type), values.data(), std::ssize(values), want.data());
      EXPECT_EQ(std::memcmp(want.data(), tensor.data, want.size()), 0) << name;
    }
    EXPECT_EQ(model::Model::open(directory.file("m.gguf"), "auto")->dtype(), at::kFloat);
  }
}

template <typename Body>
Error error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(Status::ok, "");
}

engine::ConvertSpec spec_of(const std::string& path, const std::string& target, std::string_view type) {
  engine::ConvertSpec spec;
  spec.model.source = path;
  spec.model.dtype = "auto";
  spec.target = target;
  spec.type = type;
  return spec;
}

TEST(Convert, TheNameOfTheTargetSaysItsForm) {
  TRL_NEED_GOLDEN("models/qwen2_bf16/config.json");
  const TemporaryDirectory directory;
  const std::string path = model_path("qwen2_bf16"), wide = directory.file("wide"),
                    file = directory.file("a.gguf"), other = directory.file("b.gguf"),
                    blocks = directory.file("c.gguf");
  convert(spec_of(path, wide, "f32"), nullptr);
  expect_same(wide, path);
  EXPECT_EQ(base::read_json_file(wide + "/config.json").at("dtype"), "float32");
  const Encoded encoded(path);
  const auto to_file = [&](const std::string& from, const std::string& target, std::string_view type) {
    engine::ConvertSpec spec = spec_of(from, target, type);
    spec.vocabulary = encoded.view();
    convert(spec, nullptr);
    return io::Gguf(target).tensors().at("blk.0.ffn_up.weight").type_name;
  };
  EXPECT_EQ(to_file(path, file, "auto"), "BF16");
  EXPECT_EQ(to_file(file, other, "auto"), "BF16");
  expect_same(other, path);
  EXPECT_EQ(to_file(other, blocks, "q8_0"), "Q8_0");
  EXPECT_EQ(to_file(blocks, other, "auto"), "F32");
  expect_same(other, blocks);
}

// Norms in float32 beside matrices in bfloat16, as some trainers save them.
TEST(Convert, ADirectoryKeepsTheTypeOfEachTensorUnlessAsked) {
  TRL_NEED_GOLDEN("models/qwen2_bf16/config.json");
  const TemporaryDirectory directory;
  const std::string path = model_path("qwen2_bf16"), mixed = directory.file("mixed"),
                    copy = directory.file("copy"), half = directory.file("half");
  const std::string norm = "model.norm.weight", matrix = "model.layers.0.mlp.up_proj.weight";
  const io::Weights weights = io::Weights::open_directory(path);
  const std::vector<int64_t> shape = weights.find(norm)->shape;
  const std::vector<float> values(static_cast<size_t>(shape[0]), 1.0001f);  // bfloat16 has no such number
  std::vector<io::NamedTensor> tensors = {{norm, io::ElementType::f32, shape, values.data()}};
  for (const std::string& name : weights.names()) {
    const io::TensorView& view = *weights.find(name);
    if (name != norm) tensors.push_back({name, view.type, view.shape, view.data});
  }
  save_files(mixed, {tensors, base::read_json_file(path + "/config.json"), {}, {}});
  const auto types = [&](const std::string& target, std::string_view type) {
    convert(spec_of(mixed, target, type), nullptr);
    const io::Weights made = io::Weights::open_directory(target);
    return std::pair(made.find(norm)->type_name, made.find(matrix)->type_name);
  };
  EXPECT_EQ(types(copy, "auto"), std::pair(std::string("F32"), std::string("BF16")));
  EXPECT_EQ(base::read_json_file(copy + "/config.json").at("dtype"), "bfloat16");
  expect_same(copy, mixed);
  EXPECT_EQ(types(half, "f16"), std::pair(std::string("F16"), std::string("F16")));
}

// An adapter that makes two weights of a tied embedding and head.
TEST(Convert, AMergedHeadOfItsOwnIsInTheFile) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const TemporaryDirectory directory;
  const auto model = model::Model::open(model_path("qwen2"), "float32");
  model::Adapter& adapter = model->adapters().add(
      "mine",
      config::read_lora_config(
          base::parse_json(R"({"r": 2, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]})",
                           "test"),
          "test", Status::format),
      at::kFloat);
  adapter.start(3);
  for (tensor::Parameter* p : adapter.parameters()) {
    if (p->name.find("lm_head") != std::string::npos) p->write()->mul_(1.5);
  }
  save_adapter(directory.file("adapter"), adapter, {});
  const Encoded encoded(model_path("qwen2"));
  for (const char* name : {"merged", "merged.gguf"}) {
    SCOPED_TRACE(name);
    const std::string target = directory.file(name), from = directory.file("adapter"),
                      path = model_path("qwen2");
    engine::ConvertSpec spec = spec_of(path, target, "auto");
    spec.adapter = from;
    spec.merged = true;
    spec.vocabulary = encoded.view();
    convert(spec, nullptr);
    const auto merged = model::Model::open(target, "float32");
    EXPECT_FALSE(merged->config().tie_word_embeddings);
    EXPECT_TRUE(at::equal(*merged->head().read(), *model->head().read() * 1.5));
    EXPECT_TRUE(at::equal(*merged->parameters()[0]->read(), *model->parameters()[0]->read()));
  }
}

TEST(Convert, AHeadThatATiedModelCannotHoldIsRefused) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const TemporaryDirectory directory;
  const io::Weights weights = io::Weights::open_directory(model_path("qwen2"));
  const std::string path = directory.file("hf");
  std::vector<io::NamedTensor> tensors;
  for (const std::string& name : weights.names()) {
    const io::TensorView& view = *weights.find(name);
    tensors.push_back({name, view.type, view.shape, view.data});
  }
  const io::TensorView& table = *weights.find("model.embed_tokens.weight");
  std::vector<float> head(static_cast<size_t>(table.shape[0] * table.shape[1]));
  io::read_floats(table.type, table.data, 0, std::ssize(head), head.data());
  tensors.push_back({"lm_head.weight", io::ElementType::f32, table.shape, head.data()});
  const auto write = [&] {
    save_files(path, {tensors, base::read_json_file(model_path("qwen2") + "/config.json"), {}, {}});
  };
  write();
  for (const char* name : {"out", "out.gguf"}) convert(spec_of(path, directory.file(name), "f32"), nullptr);
  head[700] += 1;
  write();
  for (const char* name : {"x", "x.gguf"}) {
    const Error error = error_of([&] { convert(spec_of(path, directory.file(name), "f32"), nullptr); });
    EXPECT_EQ(error.message(), path +
                                   ": tensor lm_head.weight differs from the embedding although "
                                   "tie_word_embeddings is true; set it to false");
    EXPECT_FALSE(base::file_exists(directory.file(name)));
  }
}

// llama.cpp has no windows in this architecture.
TEST(Convert, AWindowEndsTheContext) {
  TRL_NEED_GOLDEN("models/mistral/config.json");
  const TemporaryDirectory directory;
  const Json config = base::read_json_file(model_path("mistral") + "/config.json");
  test::Warnings log;
  const auto opened = model::open_files(model_path("mistral"));
  base::replace_file(directory.file("m.gguf"), [&](base::FileWriter& writer) {
    write_gguf(
        writer,
        {"mistral", opened.files.config, opened.files.end_ids, *opened.weights, gguf_type("f32", ""), {}},
        &log);
  });
  const io::Gguf file(directory.file("m.gguf"));
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("llama.context_length"), config.at("sliding_window").get<int64_t>());
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_EQ(
      log.lines[0],
      "sliding_window is 8 of 256 positions, and llama.cpp has no windows for mistral: context_length is "
      "8, up to which both compute the same");
}

TEST(Convert, WhatATypeCannotHoldIsRefusedAndNothingIsWritten) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const TemporaryDirectory directory;
  const auto model = model::Model::open(model_path("qwen2"), "float32");
  (*model->parameters()[5]->write()).view(-1)[40] = std::numeric_limits<float>::infinity();
  const std::string name = model->parameters()[5]->name;
  save_model(directory.file("hf"), *model, {});
  const engine::GgufVocabulary none;
  const auto convert = [&](std::string_view type) {
    convert_to_gguf(directory.file("hf"), directory.file("m.gguf"), type, none, nullptr);
  };
  const Error error = error_of([&] { convert("q8_0"); });
  EXPECT_EQ(error.status(), Status::unsupported);
  EXPECT_NE(error.message().find("tensor " + name + ": Q8_0 cannot hold what is at element 32: "),
            std::string::npos)
      << error.message();
  EXPECT_EQ(base::list_directory(directory.path()), std::vector<std::string>{"hf"});
  convert("bf16");
  const Error unknown = error_of([&] { convert("q4_k"); });
  EXPECT_EQ(unknown.message(), "type q4_k is not written; these are: f32, f16, bf16, q8_0, q4_0");
  const Error blocks = error_of(
      [&] { convert_to_directory(directory.file("m.gguf"), directory.file("x"), "q8_0", {}, nullptr); });
  EXPECT_EQ(blocks.message(),
            "convert.type: q8_0 is not written to a directory; give f32, f16, bf16, or a target whose name "
            "ends in .gguf");
  EXPECT_EQ(blocks.key(), "convert.type");
}

TEST(Convert, AVocabularyLargerThanTheEmbeddingIsRefused) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const auto tokenizer = data::open_tokenizer(model_path("qwen2"));
  const Error error = error_of([&] { data::gguf_vocabulary(*tokenizer, 100, "there", nullptr); });
  EXPECT_EQ(error.status(), Status::format);
  EXPECT_NE(error.message().find("there: the tokenizer has"), std::string::npos);
}

// save_format gguf
TEST(SaveGguf, HoldsTheModelAndReplacesAnEarlierSave) {
  TRL_NEED_GOLDEN("models/qwen3/config.json");
  const TemporaryDirectory directory;
  const auto model = model::Model::open(model_path("qwen3"), "bfloat16");
  const Encoded encoded(model_path("qwen3"));
  const std::string out = directory.file("out");
  save_model(out, *model, {});
  EXPECT_TRUE(base::file_exists(out + "/model.safetensors"));
  save_gguf(out, *model, {"auto", encoded.view()});
  EXPECT_FALSE(base::file_exists(out + "/model.safetensors"));
  EXPECT_EQ(io::Gguf(out + "/model.gguf").tensors().at("blk.0.attn_q.weight").type_name, "BF16");
  const auto again = model::Model::open(out + "/model.gguf", "auto");
  EXPECT_EQ(again->dtype(), at::kBFloat16);
  for (size_t i = 0; i < model->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(*model->parameters()[i]->read(), *again->parameters()[i]->read()));
  expect_same_ids(out + "/model.gguf", model_path("qwen3"));
  save_model(out, *model, {});
  EXPECT_FALSE(base::file_exists(out + "/model.gguf"));
}

}  // namespace
}  // namespace trl::checkpoint
