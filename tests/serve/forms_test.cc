// Fields that keep texts to a form: which option of the library each becomes, and what is refused.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include "fake_library.h"
#include "running_server.h"

namespace trl::serve::test {
namespace {

std::string option(const std::string& name) {
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().options.find("generate." + name);
  return found == fake().options.end() ? "" : found->second;
}

// A request of each route with the same fields.
std::pair<std::string, Json> request_of(const std::string& route, const char* fields) {
  Json body = Json::parse(fields);
  const Json conversation = Json::array({{{"role", "user"}, {"content", "a"}}});
  body["max_tokens"] = 1;
  if (route == "/v1/completions") body["prompt"] = "a";
  if (route == "/generate/") body["prompts"] = Json::array({"a"});
  if (route == "/v1/chat/completions") body["messages"] = conversation;
  if (route == "/chat/") body["messages"] = Json::array({conversation});
  return {route, body};
}

TEST(Forms, EachFieldBecomesAnOption) {
  RunningServer server;
  struct Row {
    const char *fields, *option, *value;
  };
  constexpr Row kRows[] = {
      {R"({"structured_outputs": {"regex": "[a-z]+", "json": null}})", "regex", "[a-z]+"},
      {R"({"structured_outputs": {"choice": ["a", "b, c"], "disable_any_whitespace": false}})", "choice",
       R"(["a","b, c"])"},
      {R"({"structured_outputs": {"json": {"type": "integer"}}})", "json_schema", R"({"type":"integer"})"},
      {R"({"structured_outputs": {"json": "{\"type\": \"null\"}"}})", "json_schema", R"({"type":"null"})"},
      {R"({"structured_outputs": {"json_object": true}})", "json_schema", R"({"type": "object"})"},
      {R"({"response_format": {"type": "json_object"}})", "json_schema", R"({"type": "object"})"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true,
           "schema": {"title": "N", "properties": {"b": {}, "a": {}}}}}})",
       "json_schema", R"({"title":"N","properties":{"b":{},"a":{}}})"},
      {R"({"structured_outputs_regex": "a|b"})", "regex", "a|b"},
      {R"({"guided_decoding_regex": "a|b"})", "regex", "a|b"},
      {R"({"guided_regex": "null", "guided_decoding_backend": "outlines"})", "regex", "(?:null)"},
      {R"({"guided_choice": ["null"]})", "choice", R"(["null"])"},
      {R"({"guided_json": {"const": 1}})", "json_schema", R"({"const":1})"}};
  for (const char* route : {"/v1/completions", "/v1/chat/completions", "/generate/", "/chat/"}) {
    for (const Row& row : kRows) {
      const auto [path, body] = request_of(route, row.fields);
      server.ask(path, body);
      for (const std::string name : {"regex", "choice", "json_schema"})
        EXPECT_EQ(option(name), name == row.option ? row.value : "") << row.fields;
    }
    for (const char* none : {"{}", R"({"response_format": {"type": "text"}, "structured_outputs": null})"}) {
      const auto [path, body] = request_of(route, none);
      server.ask(path, body);
      EXPECT_EQ(option("json_schema") + option("regex") + option("choice"), "") << none;
    }
  }
}

TEST(Forms, OfARequestTakesThePlaceOfTheModels) {
  RunningServer server({{"generate.regex", "[0-9]"}});
  server.ask("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}});
  EXPECT_EQ(option("regex"), "[0-9]");
  server.ask("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}, {"guided_choice", {"x"}}});
  EXPECT_EQ(option("regex"), "");
  EXPECT_EQ(option("choice"), R"(["x"])");
}

TEST(Forms, ARegexGoesOverStructuredOutputsOfGenerationKwargs) {
  RunningServer server;
  server.ask("/generate/", Json::parse(R"({"prompts": ["a"], "max_tokens": 1, "structured_outputs_regex": "a",
                             "generation_kwargs": {"structured_outputs": {"choice": ["b"]}}})"));
  EXPECT_EQ(option("regex"), "a");
  EXPECT_EQ(option("choice"), "");
  {
    const std::lock_guard lock(fake().mutex);
    EXPECT_NE(fake().lines.back().find("has no effect beside structured_outputs_regex"), std::string::npos);
  }
  server.ask("/generate/", Json::parse(R"({"prompts": ["a"], "max_tokens": 1,
                                           "generation_kwargs": {"structured_outputs": {"regex": "c"}}})"));
  EXPECT_EQ(option("regex"), "c");
}

TEST(Forms, WhatIsNotHereIsRefusedByName) {
  RunningServer server;
  struct Row {
    const char *fields, *param, *message;
  };
  constexpr Row kRows[] = {
      {R"({"structured_outputs": {"regex": "a", "choice": ["b"]}})", "structured_outputs",
       "structured_outputs.choice: it cannot be kept together with structured_outputs.regex"},
      {R"({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}})",
       "response_format", "together with structured_outputs.regex"},
      {R"({"guided_json": {}, "guided_regex": "a"})", "guided_json", "together with guided_regex"},
      {R"({"structured_outputs": {"grammar": "x"}})", "structured_outputs", "structured_outputs.grammar"},
      {R"({"structured_outputs": {"structural_tag": "x"}})", "structured_outputs", "structural_tag"},
      {R"({"structured_outputs": {"regex": "a", "whitespace_pattern": " "}})", "structured_outputs",
       "whitespace_pattern"},
      {R"({"structured_outputs": {"json": {}, "disable_any_whitespace": true}})", "structured_outputs",
       "disable_any_whitespace"},
      {R"({"structured_outputs": {}})", "structured_outputs", "give one of regex, choice, json, json_object"},
      {R"({"structured_outputs": "a"})", "structured_outputs", "give an object"},
      {R"({"structured_outputs": {"regex": ""}})", "structured_outputs", "regular expression"},
      {R"({"structured_outputs": {"regex": "a\u0000"}})", "structured_outputs", "write \\\\x00"},
      {R"({"structured_outputs": {"choice": []}})", "structured_outputs", "at least one"},
      {R"({"structured_outputs": {"choice": ["a", ""]}})", "structured_outputs", "none empty"},
      {R"({"structured_outputs": {"json": "{"}})", "structured_outputs", "structured_outputs.json"},
      {R"({"structured_outputs": {"json": [1]}})", "structured_outputs", "JSON schema"},
      {R"j({"structured_outputs": {"regex": "(?=a)"}})j", "structured_outputs",
       "structured_outputs.regex: character 1: look-around"},
      {R"j({"response_format": {"type": "json_schema", "json_schema": {"schema": {"pattern": "(?=a)"}}}})j",
       "response_format", "response_format.json_schema.schema: character 1"},
      {R"({"response_format": {"type": "structural_tag"}})", "response_format", "response_format.type"},
      {R"({"response_format": {"type": "json_schema"}})", "response_format", "name and schema"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}})", "response_format",
       "response_format.json_schema.schema"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": 1, "schema": {}}}})",
       "response_format", "response_format.json_schema.name"},
      {R"({"response_format": {"type": "text", "json_schema": {}}})", "response_format",
       "response_format.json_schema"},
      {R"({"response_format": 5})", "response_format", "give an object"},
      {R"({"guided_grammar": "a"})", "guided_grammar", "guided_grammar"},
      {R"({"guided_whitespace_pattern": "a"})", "guided_whitespace_pattern", "guided_whitespace_pattern"}};
  for (const Row& row : kRows) {
    for (const char* route : {"/v1/completions", "/v1/chat/completions"}) {
      const auto [path, body] = request_of(route, row.fields);
      const Response response = server.post(path, body.dump());
      EXPECT_EQ(response.status, 400) << row.fields << response.body;
      EXPECT_EQ(Json::parse(response.body)["error"]["param"], row.param) << response.body;
      EXPECT_NE(response.body.find(row.message), std::string::npos) << response.body;
    }
    const auto [path, body] = request_of("/generate/", row.fields);
    const Response old = server.post(path, body.dump());
    EXPECT_EQ(old.status, 422) << row.fields << old.body;
    EXPECT_EQ(Json::parse(old.body)["detail"][0]["loc"][1], row.param) << old.body;
  }
}

TEST(Forms, FieldsThatChangeAnswersAreNeverIgnored) {
  RunningServer server;
  const std::pair<const char*, const char*> bad[] = {{"use_beam_search", "true"},
                                                     {"best_of", "2"},
                                                     {"length_penalty", "0.5"},
                                                     {"early_stopping", "true"},
                                                     {"include_stop_str_in_output", "true"},
                                                     {"skip_special_tokens", "false"},
                                                     {"spaces_between_special_tokens", "false"},
                                                     {"truncate_prompt_tokens", "5"},
                                                     {"prompt_embeds", "\"a\""},
                                                     {"logprob_token_ids", "[1]"},
                                                     {"watermarking", "true"},
                                                     {"repetition_detection", "{}"},
                                                     {"thinking_token_budget", "3"},
                                                     {"kv_transfer_params", "{}"},
                                                     {"ec_transfer_params", "{}"},
                                                     {"vllm_xargs", "{}"},
                                                     {"logits_processors", "[]"},
                                                     {"priority", "1"},
                                                     {"cache_salt", "\"s\""},
                                                     {"detokenize", "false"},
                                                     {"echo", "true"}};
  for (const auto& [name, value] : bad)
    for (const char* route : {"/v1/completions", "/v1/chat/completions"}) {
      const auto [path, body] = request_of(route, fmt::format("{{\"{}\": {}}}", name, value).c_str());
      const Response response = server.post(path, body.dump());
      EXPECT_EQ(response.status, 400) << name << response.body;
      EXPECT_EQ(Json::parse(response.body)["error"].value("param", ""), name) << response.body;
    }
  const std::pair<const char*, const char*> of_one[] = {
      {"/v1/completions", R"({"suffix": "a"})"},
      {"/v1/chat/completions", R"({"modalities": ["audio"]})"},
      {"/v1/chat/completions", R"({"web_search_options": {}})"},
      {"/v1/chat/completions", R"({"tool_choice": "required"})"}};
  for (const auto& [route, fields] : of_one) {
    const auto [path, body] = request_of(route, fields);
    EXPECT_EQ(server.post(path, body.dump()).status, 400) << fields;
  }
  const auto [path, body] =
      request_of("/v1/completions", R"({"use_beam_search": false, "best_of": 1, "length_penalty": 1.0,
        "skip_special_tokens": true, "cache_salt": null, "detokenize": true, "priority": 0, "echo": false,
        "user": "u", "something_new": 1})");
  server.ask(path, body);
}

std::string with_regex(const std::string& regex) {
  return Json({{"prompt", "Hi"}, {"max_tokens", 2}, {"structured_outputs", {{"regex", regex}}}}).dump();
}

template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 500 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

// Forms that are compiled until the test lets them end.
struct SlowForms {
  SlowForms() { fake().slow_forms = true; }
  ~SlowForms() { fake().slow_forms = false; }
};

TEST(CompiledForms, ASlowOneHoldsNobodyElse) {
  const SlowForms slow;
  RunningServer server;
  const int before = fake().compiled_late;
  Client first(server.port()), second(server.port());
  first.send(request("POST", "/v1/completions", with_regex("slow 1")));
  ASSERT_TRUE(comes_true([] { return fake().compiling == 1; }));
  second.send(request("POST", "/v1/completions", with_regex("[a-z]")));
  EXPECT_EQ(server.ask("/v1/completions", {{"prompt", "Hi"}, {"max_tokens", 2}})["choices"][0]["text"], "ab");
  EXPECT_TRUE(comes_true([&] {
    const std::string metrics = server.get("/metrics").body;
    return metrics.find("vllm:num_requests_waiting{model_name=\"tiny\"} 2") != std::string::npos;
  }));
  fake().slow_forms = false;
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  EXPECT_EQ(fake().compiled_late, before);
  EXPECT_TRUE(comes_true([] { return fake().held_forms == 0; }));
}

TEST(CompiledForms, AKnownOneDoesNotWaitForOthers) {
  const SlowForms slow;
  RunningServer server;
  fake().step_milliseconds = 20;
  Client running(server.port()), compiling(server.port());
  Json body = Json::parse(with_regex("[0-9]"));
  body["max_tokens"] = 100;
  running.send(request("POST", "/v1/completions", body.dump()));
  ASSERT_TRUE(comes_true([&] { return server.describe()["models"][0]["running"] == 1; }));
  compiling.send(request("POST", "/v1/completions", with_regex("slow 2")));
  ASSERT_TRUE(comes_true([] { return fake().compiling == 1; }));
  const int before = fake().compiled;
  EXPECT_EQ(server.post("/v1/completions", with_regex("[0-9]")).status, 200);
  EXPECT_EQ(fake().compiled, before);
  fake().slow_forms = false;
  fake().step_milliseconds = 0;
  EXPECT_EQ(compiling.read().status, 200);
  EXPECT_EQ(running.read().status, 200);
}

TEST(CompiledForms, AClientThatGoesEndsItsOwn) {
  const SlowForms slow;
  RunningServer server;
  auto client = std::make_unique<Client>(server.port());
  client->send(request("POST", "/v1/completions", with_regex("slow 3")));
  ASSERT_TRUE(comes_true([] { return fake().compiling == 1; }));
  client.reset();
  EXPECT_TRUE(comes_true([] { return fake().compiling == 0; }));
  EXPECT_EQ(server.post("/v1/completions", with_regex("[b-z]")).status, 200);
  EXPECT_TRUE(comes_true([&] { return server.describe()["models"][0]["waiting"] == 0; }));
}

TEST(CompiledForms, ARequestWhoseTimeIsOverEndsIts) {
  const SlowForms slow;
  RunningServer server({{"serve.request_timeout", "0.2"}});
  const Response late = server.post("/v1/completions", with_regex("slow 4"));
  EXPECT_EQ(late.status, 503);
  EXPECT_NE(late.body.find("serve.request_timeout"), std::string::npos) << late.body;
  EXPECT_TRUE(comes_true([] { return fake().compiling == 0; }));
}

TEST(CompiledForms, WhatIsCompiledCountsInTheQueueAndEndsWithTheServer) {
  const SlowForms slow;
  RunningServer server({{"serve.max_queue", "2"}, {"serve.drain_timeout", "0"}});
  Client first(server.port()), second(server.port());
  first.send(request("POST", "/v1/completions", with_regex("slow 5")));
  second.send(request("POST", "/v1/completions", with_regex("slow 6")));
  ASSERT_TRUE(comes_true([&] { return server.describe()["models"][0]["requests"] == 2; }));
  EXPECT_EQ(server.post("/v1/completions", with_regex("slow 7")).status, 429);
  ASSERT_EQ(trl_server_stop(server.get(), 0, nullptr), TRL_OK);
  EXPECT_EQ(first.read().status, 503);
  EXPECT_EQ(second.read().status, 503);
  EXPECT_EQ(fake().compiling, 0);
  EXPECT_EQ(fake().held_forms, 0);
}

TEST(Forms, SpeculationIsAMapping) {
  RunningServer server({{"generate.speculative_config", R"({"method": "ngram"})"}});
  server.ask("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}});
  EXPECT_EQ(option("speculative_config"), R"({"method": "ngram"})");
  server.ask("/v1/completions", Json::parse(R"({"prompt": "a", "max_tokens": 1, "speculative_config":
                                {"method": "ngram", "num_speculative_tokens": 3}})"));
  EXPECT_EQ(option("speculative_config"), R"({"method":"ngram","num_speculative_tokens":3})");
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "speculative_config": "ngram"})").status, 400);
}

}  // namespace
}  // namespace trl::serve::test
