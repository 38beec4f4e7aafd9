// Log-probabilities of prompts from a model, over HTTP and from the library.
#include <fmt/format.h>

#include <cmath>

#include "open_model.h"

namespace trl::serve::test {
namespace {

TEST(LogprobsOfAModel, OfPromptsAreThoseOfTheGenerator) {
  OpenModel model;
  RunningServer server({}, model.get());
  const Json want = model.complete("It opens the door", {{"generate.max_new_tokens", "1"},
                                                         {"generate.prompt_logprobs", "3"},
                                                         {"generate.ignore_eos", "true"}})[0];
  const Json choice = server.ask("/v1/completions", {{"prompt", "It opens the door"},
                                                     {"max_tokens", 1},
                                                     {"temperature", 0.3},
                                                     {"prompt_logprobs", 3},
                                                     {"return_token_ids", true}})["choices"][0];
  const Json& ids = choice["prompt_token_ids"];
  ASSERT_GT(ids.size(), 2u);
  ASSERT_EQ(choice["prompt_logprobs"].size(), ids.size());
  ASSERT_EQ(want["prompt_logprobs"].size(), ids.size());
  EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
  for (size_t i = 1; i < ids.size(); ++i) {
    const Json& place = choice["prompt_logprobs"][i];
    EXPECT_EQ(want["prompt_logprobs"][i][0][0], ids[i]);
    EXPECT_EQ(place.size(), want["prompt_logprobs"][i].size());
    for (const Json& one : want["prompt_logprobs"][i]) {
      const Json& got = place[fmt::format("{}", one[0].get<int>())];
      EXPECT_EQ(got["logprob"], one[1]);
      EXPECT_EQ(got["rank"], one[2]);
      EXPECT_TRUE(got["decoded_token"].is_string());
    }
  }
}

// The log-probability of what a model wrote is that of the same tokens in a prompt.
TEST(LogprobsOfAModel, OfSequencesAreThoseOfTheirCompletions) {
  OpenModel model;
  RunningServer server({}, model.get());
  for (const double temperature : {1.0, 0.7}) {
    const Json choice = server.ask("/v1/completions", {{"prompt", "It opens"},
                                                       {"max_tokens", 8},
                                                       {"temperature", temperature},
                                                       {"seed", 5},
                                                       {"ignore_eos", true},
                                                       {"logprobs", 0},
                                                       {"trl_whole_logprobs", true},
                                                       {"return_token_ids", true}})["choices"][0];
    Json sequence = choice["prompt_token_ids"];
    const size_t prompt = sequence.size();
    for (const Json& id : choice["token_ids"]) sequence.push_back(id);
    const Json scores = server.ask("/get_sequence_logprobs/", {{"sequences", {sequence, sequence}},
                                                               {"prompt_lengths", {prompt, prompt + 7}},
                                                               {"top_logprobs", 4},
                                                               {"temperature", temperature}});
    ASSERT_EQ(scores["logprobs"][0].size(), 8u);
    ASSERT_EQ(scores["logprobs"][1].size(), 1u);
    for (size_t t = 0; t < 8; ++t) {
      const Json &values = scores["logprobs"][0][t], &ids = scores["logprob_token_ids"][0][t];
      EXPECT_GE(values.size(), 4u);
      bool found = false;
      for (size_t k = 0; k < ids.size(); ++k) {
        if (k > 0) {
          EXPECT_LE(values[k], values[k - 1]);
        }
        if (ids[k] != choice["token_ids"][t]) continue;
        found = true;
        EXPECT_EQ(values[k], choice["logprobs"]["token_logprobs"][t]);
      }
      EXPECT_TRUE(found) << t;
    }
  }
}

TEST(LogprobsOfAModel, StreamsAndStopReasons) {
  OpenModel model;
  RunningServer server({}, model.get());
  Json body = {{"prompt", "It opens"}, {"max_tokens", 24},   {"temperature", 0},
               {"logprobs", 2},        {"ignore_eos", true}, {"return_token_ids", true}};
  const Json whole = server.ask("/v1/completions", body)["choices"][0];
  body["stream"] = true;
  Json ids = Json::array(), values = Json::array();
  std::string text;
  for (const Json& event : events_of(server.post("/v1/completions", body.dump()).body)) {
    const Json& choice = event["choices"][0];
    text += choice["text"].get<std::string>();
    for (const Json& id : choice["token_ids"]) ids.push_back(id);
    for (const Json& value : choice["logprobs"]["token_logprobs"]) values.push_back(value);
  }
  EXPECT_EQ(text, whole["text"]);
  EXPECT_EQ(ids, whole["token_ids"]);
  EXPECT_EQ(values, whole["logprobs"]["token_logprobs"]);
  body["stream"] = false;
  body["stop_token_ids"] = {ids[3]};
  const Json by_id = server.ask("/v1/completions", body)["choices"][0];
  EXPECT_EQ(by_id["finish_reason"], "stop");
  EXPECT_EQ(by_id["stop_reason"], ids[3]);
  EXPECT_TRUE(whole["stop_reason"].is_null());
}

TEST(LogprobsOfAModel, UsageTellsWhatTheCacheHad) {
  OpenModel model;
  RunningServer server({}, model.get());
  Json prompt = Json::array();
  for (int i = 0; i < 100; ++i) prompt.push_back(i * 7 % 90);
  const Json body = {{"prompt", {prompt}}, {"max_tokens", 1}};
  const auto cached = [&](const Json& asked) {
    return server.ask("/v1/completions", asked)["usage"]["prompt_tokens_details"]["cached_tokens"];
  };
  EXPECT_EQ(cached(body), 0);
  EXPECT_EQ(cached(body), 64);
  Json scored = body;
  scored["prompt_logprobs"] = 0;
  EXPECT_EQ(cached(scored), 0);
}

}  // namespace
}  // namespace trl::serve::test
