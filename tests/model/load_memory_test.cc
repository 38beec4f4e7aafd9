// Opening a model takes the memory of its weights and little more, even if a tied head is stored as well
// and where the file has another type; pages of the file do not stay.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <tuple>

#include "io/gguf_types.h"
#include "io/gguf_writer.h"
#include "io/safetensors.h"
#include "io/temporary_file.h"
#include "model/model.h"
#include "support/recorded.h"
#include "tensor/counting_host.h"
#include "tensor/memory/counted.h"

namespace trl::model {
namespace {

int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

// The most that a line of /proc/self/status grew by while this lived.
class Growth {
 public:
  explicit Growth(const char* key)
      : key_(key), before_(status_bytes(key)), most_(before_), watcher_([this] {
          while (!done_) most_ = std::max<int64_t>(most_, status_bytes(key_));
        }) {}
  int64_t bytes() {
    done_ = true;
    watcher_.join();
    return std::max<int64_t>(most_, status_bytes(key_)) - before_;
  }

 private:
  const char* key_;
  const int64_t before_;
  std::atomic<int64_t> most_;
  std::atomic<bool> done_{false};
  std::thread watcher_;
};

constexpr int64_t kRows = 400'000;  // of an embedding of 100 MB

// The recorded model with a larger vocabulary, head stored beside the embedding.
void write_large(const std::string& directory, io::ElementType type) {
  const std::string from = test::golden_path("models/llama");
  base::Json config = base::read_json_file(from + "/config.json");
  config["vocab_size"] = kRows;
  base::make_directories(directory);
  base::write_file(directory + "/config.json", config.dump());
  const io::Weights weights = io::Weights::open_directory(from);
  const std::vector<char> rows(static_cast<size_t>(kRows) * 64 * io::element_size(type), '\1');
  std::vector<io::NamedTensor> tensors;
  for (const std::string& name : weights.names()) {
    const io::TensorView& view = *weights.find(name);
    if (name != "model.embed_tokens.weight") tensors.push_back({name, view.type, view.shape, view.data});
  }
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"})
    tensors.push_back({name, type, {kRows, 64}, rows.data()});
  io::write_safetensors(directory + "/model.safetensors", tensors);
}

TEST(LoadMemory, IsThatOfTheWeights) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps memory beside each block";
#endif
  TRL_NEED_GOLDEN("models/llama/config.json");
  const test::TemporaryDirectory directory;
  for (const auto type : {io::ElementType::f32, io::ElementType::f16, io::ElementType::bf16}) {
    SCOPED_TRACE(io::element_name(type));
    write_large(directory.file("model"), type);
    Model::outline(directory.file("model"), "float32");  // what is made once
    Growth anonymous("RssAnon"), mapped("RssFile");
    const auto model = Model::open(directory.file("model"), "float32");
    int64_t weights = 0;
    for (const Parameter* parameter : model->parameters()) weights += parameter->count() * 4;
    ASSERT_GT(weights, 100'000'000);
    EXPECT_LT(static_cast<double>(anonymous.bytes()), 1.1 * static_cast<double>(weights));
    // A file of 204 MB in float32, of which stretches of 32 MB are read.
    EXPECT_LT(mapped.bytes(), int64_t{100'000'000});
  }
}

// The recorded model with larger linear layers, which are stored in rows of 8-bit codes.
int64_t write_quantised(const std::string& directory) {
  const std::string from = test::golden_path("models/llama");
  base::Json config = base::read_json_file(from + "/config.json");
  config["intermediate_size"] = kRows;
  config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}};
  base::make_directories(directory);
  base::write_file(directory + "/config.json", config.dump());
  const io::Weights weights = io::Weights::open_directory(from);
  const std::vector<char> codes(static_cast<size_t>(kRows) * 64, '\1');
  const std::vector<float> absmax(static_cast<size_t>(kRows), 1.0f);
  std::vector<io::NamedTensor> tensors;
  for (const std::string& name : weights.names()) {
    const io::TensorView& view = *weights.find(name);
    const size_t mlp = name.find("_proj.weight");
    if (name.find(".mlp.") == name.npos || mlp == name.npos) {
      tensors.push_back({name, view.type, view.shape, view.data});
      continue;
    }
    const bool down = name.find("down_proj") != name.npos;
    const int64_t rows = down ? 64 : kRows, width = down ? kRows : 64;
    tensors.push_back({name, io::ElementType::u8, {rows, width}, codes.data()});
    tensors.push_back({name.substr(0, mlp + 5) + ".SCB", io::ElementType::f32, {rows}, absmax.data()});
  }
  io::write_safetensors(directory + "/model.safetensors", tensors);
  return static_cast<int64_t>(std::filesystem::file_size(directory + "/model.safetensors"));
}

TEST(LoadMemory, OfAQuantisedCheckpointIsNotThereTwice) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const test::TemporaryDirectory directory;
  const int64_t size = write_quantised(directory.file("model"));
  ASSERT_GT(size, int64_t{100'000'000});
  Model::outline(directory.file("model"), "bfloat16");
  Growth mapped("RssFile");
  const auto model = Model::open(directory.file("model"), "bfloat16");
  EXPECT_LT(mapped.bytes(), size / 2);
}

// A Phi of one layer, whose projections are fused, in a type of GGUF files; nothing but zeros.
std::string large_gguf(uint32_t type) {
  constexpr uint32_t kHidden = 1024, kInner = 8192, kTokens = 32768;
  test::GgufWriter writer;
  writer.add("general.architecture", "phi3");
  const auto add = [&](const char* key, uint32_t value) { writer.add(std::string("phi3.") + key, value); };
  add("block_count", 1);
  add("context_length", 64);
  add("embedding_length", kHidden);
  add("feed_forward_length", kInner);
  add("attention.head_count", 8);
  writer.add("phi3.attention.layer_norm_rms_epsilon", 1e-5f);
  const auto tensor = [&](const char* name, const std::vector<int64_t>& shape, uint32_t number) {
    const io::GgmlType& stored = *io::find_ggml_type(number);
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    writer.tensor(name, shape, number,
                  std::string(static_cast<size_t>(elements / stored.block * stored.bytes), '\0'));
  };
  tensor("token_embd.weight", {kTokens, kHidden}, type);
  tensor("blk.0.attn_norm.weight", {kHidden}, io::kGgmlF32);
  tensor("blk.0.attn_qkv.weight", {3 * kHidden, kHidden}, type);
  tensor("blk.0.attn_output.weight", {kHidden, kHidden}, type);
  tensor("blk.0.ffn_norm.weight", {kHidden}, io::kGgmlF32);
  tensor("blk.0.ffn_up.weight", {2 * kInner, kHidden}, type);
  tensor("blk.0.ffn_down.weight", {kHidden, kInner}, type);
  tensor("output_norm.weight", {kHidden}, io::kGgmlF32);
  return writer.bytes();
}

TEST(LoadMemory, OfGgufFilesToo) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps memory beside each block";
#endif
  const test::TemporaryDirectory directory;
  for (const auto& [type, dtype, size] :
       {std::tuple{io::kGgmlF16, "float32", 4}, std::tuple{io::kGgmlQ8_0, "float32", 4},
        std::tuple{io::kGgmlQ4_0, "bfloat16", 2}}) {
    SCOPED_TRACE(type);
    const std::string path = directory.write("m.gguf", large_gguf(type));
    Model::outline(path, dtype);
    Growth anonymous("RssAnon"), mapped("RssFile");
    const auto model = Model::open(path, dtype);
    int64_t weights = 0;
    for (const Parameter* parameter : model->parameters()) weights += parameter->count() * size;
    ASSERT_GT(weights, 100'000'000);
    EXPECT_LT(static_cast<double>(anonymous.bytes()), 1.1 * static_cast<double>(weights));
    // Of the file (126 MB in F16) stretches of 32 MB are read.
    EXPECT_LT(mapped.bytes(), int64_t{100'000'000});
  }
}

// Of the smallest weights that a model of this size has: 4-bit codes with nested scales. bfloat16 beside
// them.
std::string write_wide(const std::string& directory) {
  constexpr int64_t kHidden = 1024, kInner = 4096, kLayers = 6, kTokens = 2000;
  base::Json config = base::read_json_file(test::golden_path("models/llama/config.json"));
  config.update({{"hidden_size", kHidden},
                 {"intermediate_size", kInner},
                 {"num_hidden_layers", kLayers},
                 {"num_attention_heads", 16},
                 {"num_key_value_heads", 16},
                 {"head_dim", 64},
                 {"vocab_size", kTokens}});
  base::make_directories(directory);
  base::write_file(directory + "/config.json", config.dump());
  const std::vector<char> bytes(static_cast<size_t>(kInner * kHidden * 2), '\1');
  std::vector<io::NamedTensor> tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    tensors.push_back({"model." + name + ".weight", io::ElementType::bf16, shape, bytes.data()});
  };
  add("embed_tokens", {kTokens, kHidden});
  add("norm", {kHidden});
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    for (const char* name : {"q", "k", "v", "o"})
      add(layer + "self_attn." + name + "_proj", {kHidden, kHidden});
    for (const char* name : {"gate", "up"}) add(layer + "mlp." + name + "_proj", {kInner, kHidden});
    add(layer + "mlp.down_proj", {kHidden, kInner});
    for (const char* name : {"input_layernorm", "post_attention_layernorm"}) add(layer + name, {kHidden});
  }
  io::write_safetensors(directory + "/model.safetensors", tensors);
  return directory;
}

// Quantising while a model is loaded takes at most 1.2 times what it will have, and one tensor.
TEST(LoadMemory, OfQuantisedModelsIsThatOfTheirBlocks) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps memory beside each block";
#endif
  TRL_NEED_GOLDEN("models/llama");
  const test::TemporaryDirectory directory;
  const std::string path = write_wide(directory.file("model"));
  const auto as = [](config::WeightForm form, bool nested) { return config::Quantization{form, nested}; };
  struct Case {
    config::Quantization quantization;
    double bits;
    const char* dtype;
    int64_t size;
  };
  const Case cases[] = {{as(config::WeightForm::nf4, false), 4.5, "float32", 4},
                        {as(config::WeightForm::nf4, true), 4.13, "bfloat16", 2},
                        {as(config::WeightForm::int8, false), 8.1, "bfloat16", 2}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} bits, {}", c.bits, c.dtype));
    // Pages of the code that quantises are not the model's.
    Model::open(test::golden_path("models/llama"), c.dtype, nullptr, at::kCPU, Head::language,
                c.quantization);
    Model::outline(path, c.dtype);
    tensor::trim();
    test::CountingHost host;
    tensor::set_host(&host);
    double weights = 0;
    const double one = 4096.0 * 1024 * static_cast<double>(c.size);
    {
      Growth resident("VmRSS");
      const auto model = Model::open(path, c.dtype, nullptr, at::kCPU, Head::language, c.quantization);
      for (const Parameter* p : model->parameters()) {
        const double bytes = p->encoded() != nullptr ? c.bits / 8 : static_cast<double>(c.size);
        weights += static_cast<double>(p->count()) * bytes;
      }
      EXPECT_LT(static_cast<double>(resident.bytes()), 1.2 * weights + one);
      EXPECT_LT(static_cast<double>(host.counter.peak()), 1.02 * weights + one);
      EXPECT_LT(static_cast<double>(host.counter.now()), 1.02 * weights);
    }
    tensor::set_host(nullptr);
  }
}

}  // namespace
}  // namespace trl::model
