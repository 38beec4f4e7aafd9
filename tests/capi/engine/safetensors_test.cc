// The reader of weights that the other tests use.
#include "engine/run.h"

namespace {

TEST(Safetensors, TheTestsOwnReader) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const auto tensors = host::read_safetensors(host::golden("models/qwen2/model.safetensors"));
  const auto& embedding = tensors.at("model.embed_tokens.weight");
  EXPECT_EQ(embedding.shape[0], 512);
  EXPECT_EQ(static_cast<int64_t>(embedding.values.size()), embedding.shape[0] * embedding.shape[1]);
}

}  // namespace
