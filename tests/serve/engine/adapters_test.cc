// Adapters and sleep with a model: completions are those of the library's generator with the same adapter.
#include "open_model.h"

namespace trl::serve::test {
namespace {

const std::string kFolder = TRL_SOURCE_DIR "/tests/golden/trajectories/sft_lora";

Json body(const char* model) {
  return {{"model", model},     {"prompt", "It opens"},     {"max_tokens", 8}, {"temperature", 0},
          {"ignore_eos", true}, {"return_token_ids", true}, {"logprobs", 0}};
}

// The library's own, with an adapter of that directory, or without.
Json want(const char* adapter) {
  OpenModel model;
  if (adapter == nullptr)
    return model.complete(
        "It opens",
        {{"generate.max_new_tokens", "8"}, {"generate.ignore_eos", "true"}, {"generate.logprobs", "0"}})[0];
  EXPECT_EQ(trl_model_add_adapter(model.get(), "own", (kFolder + adapter).c_str(), nullptr), TRL_OK);
  return model.complete("It opens", {{"generate.max_new_tokens", "8"},
                                     {"generate.ignore_eos", "true"},
                                     {"generate.logprobs", "0"},
                                     {"generate.adapter", "own"}})[0];
}

void expect_same(const Json& answer, const Json& completion) {
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["token_ids"], completion["token_ids"]);
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], completion["sampling_logprobs"]);
}

TEST(WithAdapters, CompletionsAreThoseOfTheGenerator) {
  const Json plain = want(nullptr), trained = want("/adapter_final"), first = want("/adapter_init");
  ASSERT_NE(plain["sampling_logprobs"], trained["sampling_logprobs"]);
  OpenModel model;
  RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", kFolder.c_str()}}, model.get());
  const auto load = [&](const char* name, const char* path) {
    const Response got =
        server.post("/v1/load_lora_adapter",
                    Json({{"lora_name", name}, {"lora_path", path}, {"load_inplace", true}}).dump());
    EXPECT_EQ(got.status, 200) << got.body;
  };
  // Each version is computed anew, wherever in memory it is.
  for (int i = 0; i < 3; ++i) {
    load("one", "adapter_final");
    expect_same(server.ask("/v1/completions", body("one")), trained);
    expect_same(server.ask("/v1/completions", body("tiny")), plain);
    load("one", "adapter_init");
    expect_same(server.ask("/v1/completions", body("one")), first);
  }
  load("two", "adapter_final");
  expect_same(server.ask("/v1/completions", body("two")), trained);
  expect_same(server.ask("/v1/completions", body("one")), first);
}

TEST(WithAdapters, AModelThatHasSleptAnswersAsBefore) {
  const Json trained = want("/adapter_final");
  OpenModel model;
  RunningServer server({{"serve.enable_sleep_mode", "true"}}, model.get());
  ASSERT_EQ(
      trl_server_set_adapter(server.get(), nullptr, "one", (kFolder + "/adapter_final").c_str(), nullptr),
      TRL_OK);
  for (const char* level : {"/sleep?level=1", "/sleep?level=2"}) {
    EXPECT_EQ(server.post(level, "").status, 200);
    EXPECT_EQ(server.post("/v1/completions", body("one").dump()).status, 503);
    EXPECT_EQ(server.post("/wake_up", "").status, 200);
    expect_same(server.ask("/v1/completions", body("one")), trained);
  }
}

}  // namespace
}  // namespace trl::serve::test
