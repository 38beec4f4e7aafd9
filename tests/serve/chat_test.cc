// /v1/chat/completions and /chat/ against a fake library: fields, conversations, streams, refusals.
#include "fake_library.h"
#include "running_server.h"
#include "serve/api/completion.h"
#include "written.h"

namespace trl::serve::test {
namespace {

Json chat(const char* more = "{}") {
  Json body = Json::parse(R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3})");
  body.update(Json::parse(more));
  return body;
}

// Names of members in their order.
std::string names(const Json& object) {
  std::string all;
  for (const auto& [name, value] : object.items()) all += (all.empty() ? "" : " ") + name;
  return all;
}

TEST(Chat, AnswersHaveTheFieldsOfVllm) {
  RunningServer server;
  const Json answer = server.ask("/v1/chat/completions", chat());
  EXPECT_EQ(names(answer),
            "id object created model choices service_tier system_fingerprint usage prompt_logprobs "
            "prompt_token_ids prompt_text kv_transfer_params");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(names(choice), "index message logprobs finish_reason stop_reason token_ids");
  EXPECT_EQ(choice["message"].dump(),
            R"({"role":"assistant","content":"abc","refusal":null,"annotations":null,"audio":null,)"
            R"("function_call":null,"reasoning":null})");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_TRUE(choice["token_ids"].is_null());
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], std::string("user:Hi\n<|im_start|>assistant\n").size());
}

TEST(Chat, HasIdsTheRenderedPromptAndSeveralChoices) {
  RunningServer server;
  const Json answer = server.ask("/v1/chat/completions",
                                 chat(R"({"return_token_ids": true, "return_prompt_text": true, "n": 2})"));
  ASSERT_EQ(answer["choices"].size(), 2u);
  EXPECT_EQ(answer["choices"][1]["index"], 1);
  EXPECT_EQ(answer["choices"][1]["token_ids"], Json({98, 99, 100}));
  EXPECT_EQ(answer["prompt_text"], "user:Hi\n<|im_start|>assistant\n");
  EXPECT_EQ(answer["prompt_token_ids"].size(), answer["prompt_text"].get<std::string>().size());
  EXPECT_EQ(answer["usage"]["completion_tokens"], 6);
}

std::string prompt_of(RunningServer& server, const char* more) {
  Json body = chat(more);
  body["return_prompt_text"] = true;
  return server.ask("/v1/chat/completions", body)["prompt_text"].get<std::string>();
}

TEST(Chat, ConversationsReachTheTemplate) {
  RunningServer server;
  EXPECT_EQ(prompt_of(server, R"({"messages": [{"role": "system", "content": [{"type": "text", "text": "a"},
                                                {"type": "text", "text": "b"}]},
                                               {"role": "user", "content": "c"}]})"),
            "system:a\nb\nuser:c\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt_of(server, R"({"add_generation_prompt": false})"), "user:Hi\n");
  EXPECT_EQ(prompt_of(server, R"({"chat_template_kwargs": {"shown": 5}, "add_generation_prompt": false})"),
            "5\nuser:Hi\n");
  EXPECT_EQ(prompt_of(server, R"({"chat_template": "T", "add_generation_prompt": false})"), "own:Tuser:Hi\n");
  EXPECT_EQ(prompt_of(server, R"({"add_generation_prompt": false, "tool_choice": "none", "tools":
                                  [{"type": "function", "function": {"name": "f"}}]})"),
            R"([{"type":"function","function":{"name":"f"}}])"
            "\nuser:Hi\n");
}

TEST(Chat, ArgumentsOfEarlierCallsBecomeObjects) {
  RunningServer server;
  EXPECT_EQ(prompt_of(server, R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant",
              "content": "", "tool_calls": [{"id": "1", "type": "function",
              "function": {"name": "f", "arguments": "{\"a\": 1}"}},
              {"id": "2", "type": "function", "function": {"name": "g", "arguments": ""}}]}],
              "add_generation_prompt": false})"),
            "user:q\nassistant:\n"
            R"([{"id":"1","type":"function","function":{"name":"f","arguments":{"a":1}}},)"
            R"({"id":"2","type":"function","function":{"name":"g","arguments":{}}}])"
            "\n");
}

TEST(Chat, NumbersOfEarlierCallsKeepTheirDigits) {
  RunningServer server;
  prompt_of(server, R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "",
              "tool_calls": [{"id": "1", "type": "function",
              "function": {"name": "f", "arguments": "{\"a\": 12345678901234567890123}"}}]}]})");
  const std::lock_guard lock(fake().mutex);
  EXPECT_NE(fake().conversation.find(R"("arguments":{"a":12345678901234567890123})"), std::string::npos)
      << fake().conversation;
}

// As OpenAI's client sends an answer back.
TEST(Chat, NullsOfMessagesAreAsIfAbsent) {
  RunningServer server;
  EXPECT_EQ(prompt_of(server, R"({"messages": [{"role": "user"}, {"role": "assistant", "content": null,
              "refusal": null, "audio": null, "function_call": null, "tool_calls": [{"id": "1",
              "type": "function", "function": {"name": "f", "arguments": null}}]},
              {"role": "assistant", "content": "a", "tool_calls": []}], "add_generation_prompt": false})"),
            "user:\nassistant:\n"
            R"([{"id":"1","type":"function","function":{"name":"f","arguments":{}}}])"
            "\nassistant:a\n");
}

TEST(Chat, ErrorsOfATemplateNameItsField) {
  RunningServer server;
  const std::pair<const char*, const char*> bad[] = {
      {R"({"chat_template": "{{"})", "chat_template"},
      {R"({"chat_template_kwargs": {"messages": []}})", "chat_template_kwargs"}};
  for (const auto& [fields, param] : bad) {
    const Response response = server.post("/v1/chat/completions", chat(fields).dump());
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_EQ(Json::parse(response.body)["error"]["param"], param) << response.body;
  }
}

TEST(Chat, ACompletionThatFailedSaysWhy) {
  const Completion failed = read_completion(
      R"({"text": "", "token_ids": [], "finish_reason": "abort", "error": "no token"})", false);
  EXPECT_EQ(failed.finish, "abort");
  EXPECT_EQ(failed.stop_reason, "no token");
}

TEST(Chat, AFinalMessageIsContinued) {
  RunningServer server;
  const Json answer = server.ask("/v1/chat/completions", chat(R"({"continue_final_message": true,
      "return_prompt_text": true, "messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": "He"}]})"));
  EXPECT_EQ(answer["prompt_text"], "user:Hi\nassistant:He");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "abc");
}

TEST(Chat, TokensHaveLogProbabilities) {
  RunningServer server;
  Json body = chat(R"({"logprobs": true, "top_logprobs": 2, "max_tokens": 1})");
  EXPECT_EQ(server.ask("/v1/chat/completions", body)["choices"][0]["logprobs"].dump(),
            R"({"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[)"
            R"({"token":"b","logprob":-0.25,"bytes":[98]},{"token":"a","logprob":-0.5,"bytes":[97]}]}]})");
  body["trl_whole_logprobs"] = true;  // the chosen token is not among the most likely: it is the last
  body["return_tokens_as_token_ids"] = true;
  const Json top =
      server.ask("/v1/chat/completions", body)["choices"][0]["logprobs"]["content"][0]["top_logprobs"];
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0]["token"], "token_id:98");
  EXPECT_EQ(top[1]["token"], "token_id:97");
  EXPECT_EQ(top[1]["logprob"], -1.5);
  body["top_logprobs"] = nullptr;
  EXPECT_EQ(server.ask("/v1/chat/completions", body)["choices"][0]["logprobs"]["content"][0]["top_logprobs"],
            Json::array());
}

TEST(Chat, AModelThatEndsStops) {
  const Written written("Yes.");
  RunningServer server;
  const Json choice = server.ask("/v1/chat/completions", chat(R"({"max_tokens": null})"))["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "Yes.");
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST(Chat, StreamsBeginWithRolesAndEndWithUsage) {
  RunningServer server;
  const Response response = server.post(
      "/v1/chat/completions",
      chat(R"({"stream": true, "n": 2, "return_token_ids": true, "stream_options": {"include_usage": true}})")
          .dump());
  EXPECT_EQ(response.status, 200);
  const std::vector<Json> events = events_of(response.body);
  ASSERT_GE(events.size(), 5u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(names(events[i]), "id object created model choices prompt_token_ids");
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["choices"][0].dump(),
              R"({"index":)" + std::to_string(i) +
                  R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})");
  }
  std::string texts[2], finish[2];
  std::vector<int> ids[2];
  for (size_t i = 2; i + 1 < events.size(); ++i) {
    const Json& choice = events[i]["choices"][0];
    const size_t index = choice["index"].get<size_t>();
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    texts[index] += choice["delta"]["content"].get<std::string>();
    for (const int id : choice["token_ids"]) ids[index].push_back(id);
    if (choice["finish_reason"].is_null()) continue;
    EXPECT_EQ(names(choice), "index delta logprobs finish_reason stop_reason token_ids");
    finish[index] = choice["finish_reason"].get<std::string>();
  }
  EXPECT_EQ(texts[0], "abc");
  EXPECT_EQ(texts[1], "bcd");
  EXPECT_EQ(ids[1], (std::vector<int>{98, 99, 100}));
  EXPECT_EQ(finish[0], "length");
  EXPECT_EQ(finish[1], "length");
  const size_t prompt = std::string("user:Hi\n<|im_start|>assistant\n").size();
  const Json want = {{"prompt_tokens", prompt},
                     {"total_tokens", prompt + 6},
                     {"completion_tokens", 6},
                     {"prompt_tokens_details", {{"cached_tokens", prompt / 2}}}};
  EXPECT_EQ(names(events.back()), "id object created model choices usage");
  EXPECT_EQ(events.back()["choices"], Json::array());
  EXPECT_EQ(events.back()["usage"], want);
}

TEST(Chat, StreamsHaveUsageInEachEventIfAsked) {
  RunningServer server;
  const Response response =
      server.post("/v1/chat/completions",
                  chat(R"({"stream": true, "stream_options": {"continuous_usage_stats": true}})").dump());
  const std::vector<Json> events = events_of(response.body);
  EXPECT_EQ(events.front()["usage"]["completion_tokens"], 0);
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 3);
}

TEST(Chat, StreamsHaveLogProbabilities) {
  RunningServer server;
  const Response response =
      server.post("/v1/chat/completions", chat(R"({"stream": true, "logprobs": true})").dump());
  size_t tokens = 0;
  for (const Json& event : events_of(response.body)) {
    const Json& logprobs = event["choices"][0]["logprobs"];
    if (!logprobs.is_null()) tokens += logprobs["content"].size();
  }
  EXPECT_EQ(tokens, 3u);
}

TEST(Chat, BadRequestsAreRefusedByName) {
  RunningServer server;
  const struct {
    const char *body, *message;
  } kCases[] = {
      {R"({"messages": null})", "messages: missing"},
      {R"({"messages": []})", "messages: [] is not accepted"},
      {R"({"messages": [{"content": "a"}]})", "messages[0]: give an object with role and content"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content: give a text"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})",
       "messages[0].content[0]: the type \"image_url\" is not accepted; this version takes text alone"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]})",
       "messages[0].tool_calls[0].function.arguments"},
      {R"({"tools": [{"type": "function"}]})", "tools: "},
      {R"({"tool_choice": "auto"})", "When using `tool_choice`, `tools` must be set."},
      {R"({"tools": [{"function": {"name": "f"}}], "tool_choice": "required"})",
       "tool_choice: \"required\" is not accepted"},
      {R"({"top_logprobs": 2})", "when using `top_logprobs`, `logprobs` must be set to true."},
      {R"({"logprobs": true, "top_logprobs": 6})", "top_logprobs: 6 is not accepted; give at most 5"},
      {R"({"logprobs": 3})", "logprobs: 3 is not accepted; give true or false"},
      {R"({"continue_final_message": true, "add_generation_prompt": true})", "Cannot set both"},
      {R"({"chat_template_kwargs": {"chat_template": "a"}})", "chat_template_kwargs: chat_template"},
      {R"({"chat_template_kwargs": []})", "chat_template_kwargs: [] is not accepted; give an object"},
      {R"({"max_tokens": 0})", "max_tokens: 0 is not accepted"},
      {R"({"max_completion_tokens": 500})", "This model's maximum context length is 200 tokens."},
      {R"({"stream_options": {"include_usage": true}})", "stream_options"},
      {R"({"response_format": {"type": "grammar"}})", "response_format.type: give text"},
      {R"({"response_format": {"type": "json_object", "foo": 1}})",
       "response_format.foo: it is not known here; known are type"},
      {R"({"seed": 1180591620717411303424})", "give an integer of at most 64 bits"},
      {R"({"functions": []})", "functions: [] is not accepted: give tools and tool_choice"},
      {R"({"echo": true})", "echo"},
      {R"({"include_reasoning": false})", "include_reasoning"}};
  for (const auto& [body, message] : kCases) {
    const Response response = server.post("/v1/chat/completions", chat(body).dump());
    EXPECT_EQ(response.status, 400) << body;
    const Json error = Json::parse(response.body, nullptr, false)["error"];
    EXPECT_EQ(error["type"], "BadRequestError") << body;
    EXPECT_NE(error["message"].get<std::string>().find(message), std::string::npos)
        << body << ": " << error["message"];
  }
  EXPECT_EQ(server.post("/v1/chat/completions", chat(R"({"model": "other"})").dump()).status, 404);
  RunningServer strict({{"serve.request_chat_template", "false"}});
  const Response response = strict.post("/v1/chat/completions", chat(R"({"chat_template": "T"})").dump());
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("serve.request_chat_template"), std::string::npos) << response.body;
}

TEST(OldChat, ConversationsAreWrittenTogether) {
  RunningServer server;
  EXPECT_NE(server
                .post("/chat/", R"({"messages": [[{"role": "user", "content": "a"}]],
                                      "generation_kwargs": {"messages": []}})")
                .body.find("generation_kwargs: unknown name messages"),
            std::string::npos);
  const Json answer = server.ask("/chat/", Json::parse(R"({"messages": [[{"role": "user", "content": "a"}],
      [{"role": "user", "content": "bc"}]], "n": 2, "max_tokens": 2, "logprobs": null, "tools": null,
      "chat_template_kwargs": {}, "generation_kwargs": {"max_tokens": 1}})"));
  EXPECT_EQ(names(answer), "prompt_ids completion_ids logprobs logprob_token_ids");
  ASSERT_EQ(answer["prompt_ids"].size(), 2u);
  EXPECT_EQ(answer["prompt_ids"][1].size(), answer["prompt_ids"][0].size() + 1);
  EXPECT_EQ(answer["completion_ids"].dump(), "[[97],[98],[99],[100]]");
  EXPECT_TRUE(answer["logprobs"].is_null());
  const Json chosen = server.ask(
      "/chat/", Json::parse(R"({"messages": [[{"role": "user", "content": "a"}]], "max_tokens": 1})"));
  EXPECT_EQ(chosen["logprobs"].size(), 1u);
  const Response bad = server.post("/chat/", R"({"messages": [{"role": "user", "content": "a"}]})");
  EXPECT_EQ(bad.status, 422);
  EXPECT_TRUE(Json::parse(bad.body).contains("detail"));
}

}  // namespace
}  // namespace trl::serve::test
