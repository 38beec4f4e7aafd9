// Opening a model takes the memory of its weights and little more, also where a tied head is stored as well
// and where the file has another type; pages of the file do not stay.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <tuple>

#include "io/gguf_types.h"
#include "io/gguf_writer.h"
#include "io/safetensors.h"
#include "io/temporary_file.h"
#include "model/model.h"
#include "support/recorded.h"

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

}  // namespace
}  // namespace trl::model
