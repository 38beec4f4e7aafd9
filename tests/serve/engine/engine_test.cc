// The server with a model: what it answers is what the library's generator writes.
#include <fmt/format.h>

#include <chrono>
#include <future>
#include <thread>

#include "open_model.h"

namespace trl::serve::test {
namespace {

TEST(WithAModel, GreedyCompletionsAreThoseOfTheGenerator) {
  OpenModel model;
  RunningServer server({}, model.get());
  const Json want =
      model.complete("It opens", {{"generate.max_new_tokens", "12"}, {"generate.ignore_eos", "true"}})[0];
  const Json got = server.ask("/v1/completions", {{"prompt", "It opens"},
                                                  {"max_tokens", 12},
                                                  {"temperature", 0},
                                                  {"ignore_eos", true},
                                                  {"return_token_ids", true}});
  EXPECT_EQ(got["choices"][0]["text"], want["text"]);
  EXPECT_EQ(got["choices"][0]["token_ids"], want["token_ids"]);
  EXPECT_EQ(got["usage"]["completion_tokens"], 12);
  const Json by_ids = server.ask("/v1/completions", {{"prompt", got["choices"][0]["prompt_token_ids"]},
                                                     {"max_tokens", 12},
                                                     {"temperature", 0},
                                                     {"ignore_eos", true}});
  EXPECT_EQ(by_ids["choices"][0]["text"], want["text"]);
}

TEST(WithAModel, DrawsFollowSeedAndStream) {
  OpenModel model;
  RunningServer server({}, model.get());
  const std::vector<Json> want = model.complete("It opens", {{"generate.max_new_tokens", "8"},
                                                             {"generate.ignore_eos", "true"},
                                                             {"generate.temperature", "1.5"},
                                                             {"generate.num_return_sequences", "3"},
                                                             {"generate.seed", "7"},
                                                             {"generate.stream", "5"},
                                                             {"generate.logprobs", "2"},
                                                             {"generate.sampling_order", "vllm"}});
  Json body = {{"prompt", "It opens"},
               {"max_tokens", 8},
               {"temperature", 1.5},
               {"ignore_eos", true},
               {"n", 3},
               {"trl_seed", 7},
               {"trl_stream", 5},
               {"logprobs", 2},
               {"return_token_ids", true},
               {"return_tokens_as_token_ids", true}};
  const Json got = server.ask("/v1/completions", body);
  ASSERT_EQ(want.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Json& choice = got["choices"][i];
    EXPECT_EQ(choice["token_ids"], want[i]["token_ids"]) << i;
    EXPECT_EQ(choice["logprobs"]["token_logprobs"], want[i]["sampling_logprobs"]) << i;
    const Json& best = want[i]["sampling_top_logprobs"][0][0];
    EXPECT_EQ(choice["logprobs"]["top_logprobs"][0][fmt::format("token_id:{}", best[0].get<int>())], best[1]);
  }
  body["trl_whole_logprobs"] = true;
  EXPECT_EQ(server.ask("/v1/completions", body)["choices"][2]["logprobs"]["token_logprobs"],
            want[2]["logprobs"]);
  const Json old = server.ask(
      "/generate/", {{"prompts", {"It opens"}},
                     {"max_tokens", 8},
                     {"temperature", 1.5},
                     {"n", 3},
                     {"logprobs", 2},
                     {"generation_kwargs", {{"ignore_eos", true}, {"seed", 7}, {"trl_stream", 5}}}});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(old["completion_ids"][i], want[i]["token_ids"]);
  EXPECT_GE(old["logprobs"][0][0].size(), 2u);
  // Without a seed each request draws anew.
  body.erase("trl_seed");
  EXPECT_NE(server.ask("/v1/completions", body)["choices"], server.ask("/v1/completions", body)["choices"]);
}

TEST(WithoutAModel, TheMissingHandleIsNamed) {
  trl_server* server = nullptr;
  ASSERT_EQ(trl_server_create(nullptr, nullptr, &server, nullptr), TRL_OK);
  trl_error* error = nullptr;
  EXPECT_EQ(trl_server_add_model(server, "x", nullptr, nullptr, nullptr, &error), TRL_E_INVALID_ARGUMENT);
  EXPECT_NE(std::string(trl_error_message(error)).find("model"), std::string::npos)
      << trl_error_message(error);
  trl_error_destroy(error);
  error = nullptr;
  EXPECT_EQ(trl_server_add_generator(server, "x", nullptr, nullptr, nullptr, &error), TRL_E_INVALID_ARGUMENT);
  EXPECT_NE(std::string(trl_error_message(error)).find("tokenizer"), std::string::npos)
      << trl_error_message(error);
  trl_error_destroy(error);
  trl_server_destroy(server);
}

TEST(WithAModel, StreamsOfManyAtOnceJoinToTheWhole) {
  OpenModel model;
  RunningServer server({{"serve.max_num_seqs", "5"}}, model.get());
  const auto body = [](int seed, bool stream) {
    return Json{{"prompt", fmt::format("It opens {}", seed)},
                {"max_tokens", 20},
                {"temperature", 1.2},
                {"n", 2},
                {"ignore_eos", true},
                {"seed", seed},
                {"stream", stream}};
  };
  std::vector<std::thread> clients;
  std::vector<std::string> joined(16);
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&, i] {
      const Response response = server.post("/v1/completions", body(i, true).dump());
      for (const Json& event : events_of(response.body)) {
        const Json& choice = event["choices"][0];
        joined[static_cast<size_t>(i) * 2 + choice["index"].get<size_t>()] +=
            choice["text"].get<std::string>();
      }
    });
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < 8; ++i) {
    const Json whole = server.ask("/v1/completions", body(i, false));
    for (size_t j = 0; j < 2; ++j)
      EXPECT_EQ(joined[static_cast<size_t>(i) * 2 + j], whole["choices"][j]["text"]) << i;
  }
}

TEST(WithAModel, FieldsReachTheGenerator) {
  OpenModel model;
  RunningServer server({}, model.get());
  const auto text_of = [&](Json more) {
    Json body = {{"prompt", "It opens"},
                 {"max_tokens", 6},
                 {"temperature", 0},
                 {"ignore_eos", true},
                 {"return_token_ids", true}};
    body.update(more);
    return server.ask("/v1/completions", body)["choices"][0];
  };
  const Json plain = text_of(Json::object());
  const int first = plain["token_ids"][0].get<int>();
  EXPECT_NE(text_of({{"logit_bias", {{std::to_string(first), -100}}}})["token_ids"][0], first);
  EXPECT_EQ(text_of({{"allowed_token_ids", {first, first + 1}}})["token_ids"].size(), 6u);
  EXPECT_EQ(text_of({{"stop_token_ids", Json::array({first})}})["token_ids"].size(), 1u);
  EXPECT_NE(
      text_of({{"presence_penalty", 2}, {"frequency_penalty", 2}, {"repetition_penalty", 5}})["token_ids"],
      plain["token_ids"]);
  const std::string whole = plain["text"].get<std::string>();
  const std::string stop = whole.substr(whole.size() / 2, 1);
  const Json stopped = text_of({{"stop", Json::array({stop, "\n\", [x: y]"})}});
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["text"], whole.substr(0, whole.find(stop)));
  const Response outside = server.post("/v1/completions", R"({"prompt": [99999999]})");
  EXPECT_EQ(outside.status, 400);
  const Response long_one = server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 100000000})");
  EXPECT_NE(long_one.body.find("maximum context length"), std::string::npos);
}

TEST(WithAModel, TextsKeepTheFormThatIsAskedFor) {
  OpenModel model;
  RunningServer server({}, model.get());
  const auto texts_of = [&](const char* form) {
    Json body = {{"prompt", "It opens"}, {"max_tokens", 60}, {"temperature", 1.2}, {"n", 4}, {"seed", 3}};
    body.update(Json::parse(form));
    std::vector<std::string> texts;
    const Json answer = server.ask("/v1/completions", body);
    for (const Json& choice : answer.at("choices"))
      if (choice["finish_reason"] == "stop") texts.push_back(choice["text"]);
    EXPECT_FALSE(texts.empty()) << form;
    return texts;
  };
  for (const std::string& text : texts_of(R"({"structured_outputs": {"regex": "[a-c]{3} [0-9]{2}"}})"))
    EXPECT_TRUE(text.size() == 6 && text[3] == ' ' && isdigit(text[5]) != 0) << text;
  for (const std::string& text : texts_of(R"({"structured_outputs": {"choice": ["null", "maybe"]}})"))
    EXPECT_TRUE(text == "null" || text == "maybe") << text;
  for (const std::string& text : texts_of(R"({"structured_outputs_regex": "null"})")) EXPECT_EQ(text, "null");
  for (const std::string& text :
       texts_of(R"({"response_format": {"type": "json_schema", "json_schema": {"name": "Person", "schema":
         {"$defs": {"Kind": {"enum": ["a", "b"], "title": "Kind", "type": "string"}},
          "properties": {"age": {"title": "Age", "type": "integer", "default": 1}, "kind": {"$ref": "#/$defs/Kind"},
                         "of": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": null}},
          "required": ["kind"], "title": "Person", "type": "object"}}}})")) {
    const Json person = Json::parse(text, nullptr, false);
    EXPECT_TRUE(person.is_object() && person.contains("kind")) << text;
  }
  const Response refused =
      server.post("/v1/completions", R"j({"prompt": "a", "structured_outputs": {"regex": "a(?=b)"}})j");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("structured_outputs.regex: character 2 of the pattern"), std::string::npos)
      << refused.body;
  EXPECT_EQ(Json::parse(refused.body)["error"]["param"], "structured_outputs");
  const Response schema = server.post(
      "/v1/chat/completions",
      R"({"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_schema",
          "json_schema": {"name": "n", "schema": {"type": "integer", "multipleOf": 2}}}})");
  EXPECT_EQ(schema.status, 400);
  EXPECT_NE(schema.body.find("response_format.json_schema.schema: at #: 'multipleOf'"), std::string::npos)
      << schema.body;
}

TEST(WithAModel, AnyJsonObjectIsOne) {
  OpenModel model;
  RunningServer server({}, model.get());
  size_t whole = 0;
  for (int seed = 0; seed < 4; ++seed) {
    const Json got = server.ask("/v1/completions", {{"prompt", "It opens"},
                                                    {"max_tokens", 200},
                                                    {"n", 4},
                                                    {"seed", seed},
                                                    {"response_format", {{"type", "json_object"}}}});
    for (const Json& choice : got["choices"]) {
      EXPECT_EQ(choice["text"].get<std::string>()[0], '{');
      if (choice["finish_reason"] != "stop") continue;
      EXPECT_TRUE(Json::parse(choice["text"].get<std::string>(), nullptr, false).is_object())
          << choice["text"];
      ++whole;
    }
  }
  EXPECT_GT(whole, 0u);
}

TEST(WithAModel, SpeculationChangesNoToken) {
  OpenModel model;
  const char* const speculation = R"({"method": "ngram", "num_speculative_tokens": 4})";
  RunningServer plain({}, model.get()), with({{"generate.speculative_config", speculation}}, model.get());
  Json body = {{"prompt", "It opens it opens it opens"},
               {"max_tokens", 24},
               {"temperature", 0.7},
               {"ignore_eos", true},
               {"seed", 5},
               {"return_token_ids", true}};
  const Json want = plain.ask("/v1/completions", body)["choices"][0]["token_ids"];
  EXPECT_EQ(with.ask("/v1/completions", body)["choices"][0]["token_ids"], want);
  body["speculative_config"] = Json::parse(speculation);
  EXPECT_EQ(plain.ask("/v1/completions", body)["choices"][0]["token_ids"], want);
  body["speculative_config"] = {{"method", "eagle"}};
  const Response refused = plain.post("/v1/completions", body.dump());
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(Json::parse(refused.body)["error"]["param"], "speculative_config");
}

TEST(WithAModel, AGeneratorOfTheHostIsServed) {
  OpenModel model;
  trl_generator* generator = nullptr;
  trl_tokenizer* tokenizer = nullptr;
  trl_server* server = nullptr;
  trl_error* error = nullptr;
  trl_config* config = nullptr;
  ASSERT_EQ(trl_tokenizer_open(nullptr, kModel, nullptr, &tokenizer, nullptr), TRL_OK);
  ASSERT_EQ(trl_generator_create(model.get(), tokenizer, &generator, nullptr), TRL_OK);
  ASSERT_EQ(trl_config_create(&config, nullptr), TRL_OK);
  ASSERT_EQ(trl_config_load_text(config, "serve.port: 0", 13, &error), TRL_OK) << trl_error_message(error);
  ASSERT_EQ(trl_server_create(nullptr, config, &server, nullptr), TRL_OK);
  ASSERT_EQ(trl_server_add_generator(server, "own", generator, tokenizer, nullptr, &error), TRL_OK)
      << trl_error_message(error);
  trl_generator_destroy(generator);  // in any order
  trl_tokenizer_destroy(tokenizer);
  trl_config_destroy(config);
  ASSERT_EQ(trl_server_start(server, &error), TRL_OK) << trl_error_message(error);
  const char* json = nullptr;
  ASSERT_EQ(trl_server_describe(server, &json, nullptr), TRL_OK);
  Client client(Json::parse(json)["port"].get<int>());
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt": "It", "max_tokens": 2})").status, 200);
  EXPECT_EQ(Json::parse(client.get("/v1/models").body)["data"][0]["id"], "own");
  trl_server_destroy(server);
}

// Lines of the log come on threads of the host alone.
TEST(WithAModel, LogLinesComeOnThreadsOfTheHost) {
  struct Seen {
    std::thread::id own = std::this_thread::get_id();
    bool other = false;
    std::string all;
  } seen;
  const auto on_log = [](void* any, int32_t, const char*, const char* text, size_t size) {
    auto& log = *static_cast<Seen*>(any);
    if (std::this_thread::get_id() != log.own) log.other = true;
    log.all.append(text, size) += "\n";
  };
  trl_runtime* runtime = nullptr;
  ASSERT_EQ(trl_runtime_create(nullptr, &runtime, nullptr), TRL_OK);
  ASSERT_EQ(trl_runtime_set_log(runtime, on_log, &seen, nullptr, nullptr), TRL_OK);
  trl_model* model = nullptr;
  ASSERT_EQ(trl_model_open(runtime, kModel, nullptr, &model, nullptr), TRL_OK);
  {
    RunningServer server({}, model, runtime);
    EXPECT_NE(seen.all.find("serving tiny at http://127.0.0.1:"), std::string::npos);
    server.ask("/v1/completions", {{"prompt", "It"}, {"max_tokens", 2}, {"unknown_field", 1}});
    EXPECT_EQ(trl_server_wait(server.get(), 0, nullptr), TRL_LATER);
  }
  EXPECT_NE(seen.all.find("unknown_field"), std::string::npos);
  EXPECT_FALSE(seen.other);
  trl_model_destroy(model);
  trl_runtime_destroy(runtime);
}

// One cancel ends one call, and the server runs on.
TEST(Waiting, ARuntimesCancelEndsIt) {
  trl_runtime* runtime = nullptr;
  ASSERT_EQ(trl_runtime_create(nullptr, &runtime, nullptr), TRL_OK);
  OpenModel model;
  RunningServer server({}, model.get(), runtime);
  std::future<trl_status> waits = std::async(std::launch::async, [&] {
    trl_error* error = nullptr;
    const trl_status status = trl_server_wait(server.get(), 60, &error);
    trl_error_destroy(error);
    return status;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  trl_runtime_cancel(runtime);
  ASSERT_EQ(waits.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(waits.get(), TRL_E_CANCELLED);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(trl_server_wait(server.get(), 0, nullptr), TRL_LATER);
  trl_server_cancel(server.get());
  EXPECT_EQ(trl_server_wait(server.get(), -1, nullptr), TRL_OK);
  trl_runtime_destroy(runtime);
}

}  // namespace
}  // namespace trl::serve::test
