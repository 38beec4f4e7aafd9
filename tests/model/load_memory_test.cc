// Opening a model takes the memory of its weights and little more, also where a tied head is stored as well
// and where the file has another type; pages of the file do not stay.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

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

}  // namespace
}  // namespace trl::model
