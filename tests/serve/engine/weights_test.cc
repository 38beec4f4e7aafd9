// Weights that take the place of a model's: whole tensors and parts of them, again and again.
#include <map>

#include "base/dlpack.h"
#include "open_model.h"
#include "sent_tensors.h"
#include "support/recorded.h"

namespace trl::serve::test {
namespace {

const std::string kTensors = "Content-Type: application/x-trl-weights\r\n";

struct Numbers {
  std::vector<int64_t> shape;
  std::string dtype, bytes;
};
using AllNumbers = std::map<std::string, Numbers>;

AllNumbers numbers_of(trl_model* model) {
  const char* json = nullptr;
  EXPECT_EQ(trl_model_get_tensors(model, &json, nullptr), TRL_OK);
  AllNumbers all;
  for (const Json& one : Json::parse(json)) {
    Numbers numbers{one["shape"].get<std::vector<int64_t>>(), one["dtype"].get<std::string>(), ""};
    const auto name = one["name"].get<std::string>();
    DLManagedTensorVersioned* copy = nullptr;
    EXPECT_EQ(trl_model_read_tensor(model, name.c_str(), TRL_TENSOR_COPY, &copy, nullptr), TRL_OK) << name;
    size_t bytes = copy->dl_tensor.dtype.bits / 8;
    for (const int64_t extent : numbers.shape) bytes *= static_cast<size_t>(extent);
    numbers.bytes.assign(static_cast<const char*>(copy->dl_tensor.data), bytes);
    copy->deleter(copy);
    all[name] = std::move(numbers);
  }
  return all;
}

SentTensors message_of(const AllNumbers& all) {
  SentTensors sent;
  for (const auto& [name, one] : all) sent.add(name, one.dtype, one.shape, one.bytes);
  return sent;
}

void expect_same(const AllNumbers& now, const AllNumbers& wanted) {
  ASSERT_EQ(now.size(), wanted.size());
  for (const auto& [name, one] : wanted) EXPECT_TRUE(now.at(name).bytes == one.bytes) << name;
}

// Rows of a tensor in the reverse order: other numbers of the same size.
AllNumbers turned(AllNumbers all) {
  for (auto& [name, one] : all) {
    const size_t row = one.bytes.size() / static_cast<size_t>(one.shape.front());
    std::string rows;
    for (size_t at = one.bytes.size(); at > 0; at -= row) rows += one.bytes.substr(at - row, row);
    one.bytes = rows;
  }
  return all;
}

TEST(WithWeights, TakeThePlaceOfTheModelsAgainAndAgain) {
  for (const char* name : {"qwen2", "gpt2", "qwen3_moe"}) {
    SCOPED_TRACE(name);
    if (trl::test::golden_path("models/" + std::string(name) + "/model.safetensors").empty()) continue;
    const std::string path = trl::test::golden_path("models/" + std::string(name));
    OpenModel model({}, path);
    const AllNumbers own = numbers_of(model.get()), other = turned(own);
    RunningServer server({}, model.get());
    const auto send = [&](const SentTensors& sent) {
      return Client(server.port()).post("/trl/weights", sent.text(), kTensors);
    };
    const auto text = [&] {
      return server.ask("/v1/completions", {{"prompt", {5, 6, 7}},
                                            {"max_tokens", 6},
                                            {"temperature", 0},
                                            {"ignore_eos", true},
                                            {"return_token_ids", true},
                                            {"logprobs", 0}})["choices"][0]["logprobs"]["token_logprobs"];
    };
    const Json before = text();
    Json after;
    for (int i = 0; i < 2; ++i) {
      const Response response = send(message_of(other));
      ASSERT_EQ(response.status, 200) << response.body;
      expect_same(numbers_of(model.get()), other);
      if (i == 0) after = text();
      EXPECT_NE(after, before);
      EXPECT_EQ(text(), after);
      SentTensors wrong = message_of(own);
      wrong.header["tensors"].back()["hash"] = "0123456789abcdef";
      EXPECT_EQ(send(wrong).status, 400);
      expect_same(numbers_of(model.get()), other);
      EXPECT_EQ(send(message_of(own)).status, 200);
      expect_same(numbers_of(model.get()), own);
      EXPECT_EQ(text(), before);
    }
  }
}

}  // namespace
}  // namespace trl::serve::test
