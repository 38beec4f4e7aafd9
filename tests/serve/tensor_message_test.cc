#include "serve/weights/tensor_message.h"

#include <gtest/gtest.h>

#include <random>

#include "sent_tensors.h"
#include "serve/api/error.h"

namespace trl::serve::test {
namespace {

// Any bytes are a message or are refused; what is read lies within them.
TEST(TensorMessages, AnyBytesAreReadOrRefused) {
  SentTensors sent;
  sent.add("a", "bfloat16", {2, 2}, "AAAAAAAA").add("b", "float32", {3}, "BBBBBBBBBBBB");
  sent.header["unchanged"] = {{{"name", "c"}, {"hash", hash_of("cccccccc")}}};
  const std::string whole = sent.text();
  std::mt19937 random(7);
  int read = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = whole;
    for (int changes = i % 4; changes >= 0; --changes)
      bytes[random() % bytes.size()] =
          static_cast<char>(i % 3 == 0 ? random() : "0129[]{},:\"-aeE."[random() % 17]);
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    try {
      for (const SentTensor& tensor : read_message(bytes).tensors) {
        EXPECT_GE(tensor.bytes.data(), bytes.data());
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), bytes.data() + bytes.size());
      }
      ++read;
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.status, 400);
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace trl::serve::test
