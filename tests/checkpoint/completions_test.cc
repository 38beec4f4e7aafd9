// Completions of models that were saved, as directories and as GGUF files whose blocks are decoded on
// reading.
#include <gtest/gtest.h>

#include "checkpoint/gguf_of.h"
#include "checkpoint/save.h"
#include "generate/completions.h"

namespace trl::checkpoint {
namespace {

using model::Model;
using test::Completion;

std::vector<generate::Request> some_requests() {
  std::vector<generate::Request> all(4);
  for (int32_t r = 0; r < 4; ++r) {
    generate::Request& request = all[static_cast<size_t>(r)];
    for (int32_t i = 0; i < 5 + 45 * r; ++i) request.ids.push_back(3 + (i * 7 + i / 70 * r) % 400);
    request.sampling.temperature = r % 2;
    request.sampling.max_new_tokens = 10;
    request.sampling.log_probabilities = true;
    request.count = 1 + r % 2;
    request.stream = static_cast<uint64_t>(10 * r);
  }
  return all;
}

std::vector<Completion> each_alone(const Model& model, at::ScalarType compute) {
  std::vector<Completion> all;
  for (const generate::Request& request : some_requests())
    for (Completion& one : test::alone(model, compute, request)) all.push_back(std::move(one));
  return all;
}

// In so small a cache that sequences give their blocks back.
std::vector<Completion> together(const Model& model, at::ScalarType compute) {
  generate::Generator generator(model, compute, {.blocks = 4, .step_tokens = 37});
  test::Completions got;
  for (const generate::Request& request : some_requests()) generator.add(request);
  test::run(generator, got);
  std::vector<Completion> all;
  for (auto& [sequence, completion] : got.all) all.push_back(std::move(completion));
  return all;
}

TEST(SavedCompletions, OfAGgufFileAreTheSameAloneAndTogether) {
  TRL_NEED_GOLDEN("models/llama3/config.json");
  const test::TemporaryDirectory directory;
  for (const char* name : {"llama", "llama3", "qwen2", "qwen3"}) {
    for (const char* type : {"q8_0", "q4_0", "f16"}) {
      const auto model = Model::open(test::write_gguf_of(directory, name, type), "keep");
      for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, type, c10::toString(compute)));
        EXPECT_EQ(together(*model, compute), each_alone(*model, compute));
      }
    }
  }
}

TEST(SavedCompletions, OfADirectoryAreThoseOfTheModel) {
  TRL_NEED_GOLDEN("models/llama3/config.json");
  for (const char* name : {"llama3", "mistral", "qwen2_bf16"}) {
    SCOPED_TRACE(name);
    const auto model = Model::open(test::golden_path(std::string("models/") + name), "auto");
    const test::TemporaryDirectory directory;
    save_model(directory.file("saved"), *model, {});
    const auto saved = Model::open(directory.file("saved"), "auto");
    EXPECT_EQ(together(*saved, at::kFloat), each_alone(*model, at::kFloat));
  }
}

}  // namespace
}  // namespace trl::checkpoint
