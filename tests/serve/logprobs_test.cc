// Log-probabilities of prompts, and of the tokens of streams as they come.
#include <cmath>
#include <cstring>

#include "base/text/base64.h"
#include "fake_library.h"
#include "running_server.h"

namespace trl::serve::test {
namespace {

TEST(PromptLogprobs, AreVllmsListsByIds) {
  RunningServer server;
  const Json body = {{"prompt", "Hai"}, {"max_tokens", 1}, {"prompt_logprobs", 2}, {"n", 2}};
  const Json answer = server.ask("/v1/completions", body);
  // 'a' is odd, and the fake's least likely; 'i' is, too.
  const char* const want =
      R"([null,{"97":{"logprob":-2.5,"rank":3,"decoded_token":"a"},)"
      R"("98":{"logprob":-0.25,"rank":1,"decoded_token":"b"},"99":{"logprob":-0.5,"rank":2,"decoded_token":"c"}},)"
      R"({"105":{"logprob":-2.5,"rank":3,"decoded_token":"i"},)"
      R"("106":{"logprob":-0.25,"rank":1,"decoded_token":"j"},"107":{"logprob":-0.5,"rank":2,"decoded_token":"k"}}])";
  for (const Json& choice : answer["choices"]) EXPECT_EQ(choice["prompt_logprobs"].dump(), want);
  EXPECT_TRUE(server.ask("/v1/completions", {{"prompt", "Hi"}})["choices"][0]["prompt_logprobs"].is_null());
  const Json most = server.ask("/v1/completions", {{"prompt", {{1, 2}}}, {"prompt_logprobs", -1}});
  EXPECT_EQ(most["choices"][0]["prompt_logprobs"][1].size(), 5u);  // serve.max_logprobs
  const Json own = server.ask("/v1/completions", {{"prompt", {{1, 2}}}, {"prompt_logprobs", 0}});
  EXPECT_EQ(own["choices"][0]["prompt_logprobs"][1].size(), 1u);
  const Json warm = server.ask(
      "/v1/completions", {{"prompt", {{2, 3}}}, {"prompt_logprobs", 0}, {"prompt_logprobs_temperature", 2}});
  EXPECT_EQ(warm["choices"][0]["prompt_logprobs"][1]["3"]["logprob"], -1.25);
  const Json chat = server.ask(
      "/v1/chat/completions",
      {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 1}, {"prompt_logprobs", 1}});
  EXPECT_TRUE(chat["prompt_logprobs"][0].is_null());
  EXPECT_EQ(chat["prompt_logprobs"].size(), chat["usage"]["prompt_tokens"]);
}

TEST(PromptLogprobs, UsageHasTheTokensThatWereKnown) {
  RunningServer server;
  const Json body = {{"prompt", {"Hello!", "You!"}}, {"n", 2}, {"max_tokens", 2}};
  const auto cached = [](const Json& answer) {
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"];
  };
  EXPECT_EQ(cached(server.ask("/v1/completions", body)), 5);
  Json stream = body;
  stream["stream"] = true;
  stream["stream_options"] = {{"include_usage", true}};
  EXPECT_EQ(cached(events_of(server.post("/v1/completions", stream.dump()).body).back()), 5);
  Json chat = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"n", 2}, {"max_tokens", 2}};
  const int64_t one = cached(server.ask("/v1/chat/completions", chat)).get<int64_t>();
  EXPECT_GT(one, 0);
  chat["stream"] = true;
  chat["stream_options"] = {{"include_usage", true}};
  EXPECT_EQ(cached(events_of(server.post("/v1/chat/completions", chat.dump()).body).back()), one);
}

TEST(PromptLogprobs, AStopTextIsTheReason) {
  RunningServer server;
  const Json body = {{"prompt", "Hi"}, {"max_tokens", 9}, {"stop", "d"}};
  EXPECT_EQ(server.ask("/v1/completions", body)["choices"][0]["stop_reason"], "d");
  Json stream = body;
  stream["stream"] = true;
  const Json last = events_of(server.post("/v1/completions", stream.dump()).body).back();
  EXPECT_EQ(last["choices"][0]["stop_reason"], "d");
}

// Each token is told when it is there, and once.
TEST(StreamedLogprobs, ComeWithTheirTokens) {
  RunningServer server({{"serve.stream_buffer", "1000000"}});  // no event waits for another one to be read
  const Json body = {{"prompt", "Hi"}, {"max_tokens", 40}, {"logprobs", 1}, {"stream", true}};
  const std::vector<Json> events = events_of(server.post("/v1/completions", body.dump()).body);
  EXPECT_EQ(events.size(), 40u);
  std::string text, tokens;
  for (const Json& event : events) {
    const Json& choice = event["choices"][0];
    text += choice["text"].get<std::string>();
    for (const Json& token : choice["logprobs"]["tokens"]) tokens += token.get<std::string>();
  }
  EXPECT_EQ(text, "abcdefghijklmnopqrstuvwxyzabcdefghijklmn");
  EXPECT_EQ(tokens, text);
}

Json scores(RunningServer& server, Json more = Json::object()) {
  Json body = {{"sequences", {{2, 3, 4, 5}, {7, 8}}}, {"prompt_lengths", {2, 1}}, {"top_logprobs", 2}};
  body.update(more);
  return server.ask("/get_sequence_logprobs/", body);
}

TEST(SequenceLogprobs, AreByRankFromThePromptOn) {
  RunningServer server;
  const Json answer = scores(server);
  std::string names;
  for (const auto& [name, value] : answer.items()) names += (names.empty() ? "" : " ") + name;
  EXPECT_EQ(
      names,
      "logprobs logprob_token_ids logprobs_b64 token_ids_b64 actual_logprobs_b64 actual_token_ids_b64 shape "
      "completion_lengths");
  // 4 and 8 are the most likely, 5 is the least.
  EXPECT_EQ(answer["logprobs"].dump(), "[[[-0.25,-0.5],[-0.25,-0.5,-2.5]],[[-0.25,-0.5]]]");
  EXPECT_EQ(answer["logprob_token_ids"].dump(), "[[[4,6],[6,7,5]],[[8,10]]]");
  EXPECT_TRUE(answer["shape"].is_null());
  const Json from_zero = scores(server, {{"prompt_lengths", {0, 2}}, {"temperature", 2}});
  EXPECT_EQ(from_zero["logprobs"].dump(), "[[[],[-0.25,-0.5,-1.25],[-0.25,-0.5],[-0.25,-0.5,-1.25]],[]]");
  const Json none = scores(server, {{"sequences", Json::array()}, {"prompt_lengths", Json::array()}});
  EXPECT_EQ(none["logprobs"].dump(), "[]");
}

template <class Value>
std::vector<Value> decoded(const Json& text) {
  const std::optional<std::string> bytes = base::decode_base64(text.get<std::string>());
  if (!bytes) return {};
  std::vector<Value> values(bytes->size() / sizeof(Value));
  std::memcpy(values.data(), bytes->data(), values.size() * sizeof(Value));
  return values;
}

TEST(SequenceLogprobs, AsBytesArePadded) {
  RunningServer server;
  const Json answer = scores(server, {{"response_format", "binary"}});
  EXPECT_TRUE(answer["logprobs"].is_null());
  EXPECT_EQ(answer["shape"].dump(), "[2,2,2]");
  EXPECT_EQ(answer["completion_lengths"].dump(), "[2,1]");
  const float none = -INFINITY;
  EXPECT_EQ(decoded<float>(answer["logprobs_b64"]),
            (std::vector<float>{-.25f, -.5f, -.25f, -.5f, -.25f, -.5f, none, none}));
  EXPECT_EQ(decoded<int32_t>(answer["token_ids_b64"]), (std::vector<int32_t>{4, 6, 6, 7, 8, 10, 0, 0}));
  EXPECT_EQ(decoded<float>(answer["actual_logprobs_b64"]), (std::vector<float>{-.25f, -2.5f, -.25f, none}));
  EXPECT_EQ(decoded<int32_t>(answer["actual_token_ids_b64"]), (std::vector<int32_t>{4, 5, 8, 0}));
  const Json wide = scores(server, {{"response_format", "binary"}, {"prompt_lengths", {4, 2}}});
  EXPECT_EQ(wide["shape"].dump(), "[2,0,2]");
  EXPECT_EQ(wide["logprobs_b64"], "");
}

TEST(SequenceLogprobs, BadRequestsAreRefusedByName) {
  RunningServer server;
  const struct {
    const char *body, *message;
  } kCases[] = {
      {R"({})", "sequences: missing"},
      {R"({"sequences": "a", "prompt_lengths": [1]})", "sequences: \\\"a\\\" is not accepted"},
      {R"({"sequences": [1, 2], "prompt_lengths": [1]})", "sequences: 1 is not accepted"},
      {R"({"sequences": [[]], "prompt_lengths": [0]})", "a prompt has no tokens"},
      {R"({"sequences": [[1], [2]], "prompt_lengths": [1]})", "a list of 2 integers"},
      {R"({"sequences": [[1]]})", "prompt_lengths: missing"},
      {R"({"sequences": [[1]], "prompt_lengths": [2]})", "prompt_lengths[0]: 2 is not accepted"},
      {R"({"sequences": [[1]], "prompt_lengths": [-1]})", "prompt_lengths[0]: -1 is not accepted"},
      {R"({"sequences": [[1]], "prompt_lengths": [1], "top_logprobs": 1001})", "top_logprobs: 1001"},
      {R"({"sequences": [[1]], "prompt_lengths": [1], "temperature": 0})", "temperature: 0"},
      {R"({"sequences": [[1]], "prompt_lengths": [1], "response_format": "xml"})", "response_format: "},
      {R"({"sequences": [[300]], "prompt_lengths": [1]})",
       "sequences[0][0]: 300 is not accepted; give token ids from 0 to 259"},
      {R"({"sequences": [[1], [2, -1]], "prompt_lengths": [1, 1]})", "sequences[1][1]: -1 is not accepted"},
  };
  for (const auto& [body, message] : kCases) {
    const Response response = server.post("/get_sequence_logprobs/", body);
    EXPECT_EQ(response.status, 422) << body;
    EXPECT_NE(response.body.find(message), std::string::npos) << body << response.body;
  }
  const Json longest = Json(std::vector<int>(200, 1)), longer = Json(std::vector<int>(201, 1));
  const Json body = {{"sequences", {longest}}, {"prompt_lengths", {1}}, {"top_logprobs", 1}};
  EXPECT_EQ(server.ask("/get_sequence_logprobs/", body)["logprobs"][0].size(), 199u);
  const Json more = {{"sequences", {longer}}, {"prompt_lengths", {1}}};
  const Response response = server.post("/get_sequence_logprobs/", more.dump());
  EXPECT_EQ(response.status, 422);
  EXPECT_NE(response.body.find("sequences[0] has 201 tokens"), std::string::npos) << response.body;
}

}  // namespace
}  // namespace trl::serve::test
