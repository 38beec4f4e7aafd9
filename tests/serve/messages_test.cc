// Calls of tools and reasoning in answers, whole and as streams, which must tell the same.
#include "fake_library.h"
#include "running_server.h"
#include "written.h"

namespace trl::serve::test {
namespace {

Json request(const char* more = "{}") {
  Json body = Json::parse(R"({"messages": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function",
      "function": {"name": "f", "parameters": {"type": "object",
                                               "properties": {"a": {"type": "integer"}}}}}]})");
  body.update(Json::parse(more));
  return body;
}

// The message that a stream tells; "pieces": how many events told text or reasoning.
Json streamed(RunningServer& server, Json body) {
  body["stream"] = true;
  Json message = {{"content", ""}, {"reasoning", ""}, {"calls", Json::array()}, {"pieces", 0}};
  const Response response = server.post("/v1/chat/completions", body.dump());
  EXPECT_EQ(response.status, 200) << response.body;
  for (const Json& event : events_of(response.body)) {
    const Json& choice = event["choices"][0];
    const Json& delta = choice["delta"];
    for (const char* name : {"content", "reasoning"}) {
      if (delta.value(name, "").empty()) continue;
      message[name] = message[name].get<std::string>() + delta[name].get<std::string>();
      message["pieces"] = message["pieces"].get<int>() + 1;
    }
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      EXPECT_EQ(call["index"], message["calls"].size());
      message["calls"].push_back(call["function"]);
    }
    if (!choice["finish_reason"].is_null()) message["finish"] = choice["finish_reason"];
  }
  return message;
}

// The message of an answer, which the stream must tell, too.
Json answered(const std::string& answer, const Json& body, const char* form = kJsonForm) {
  const Written written(answer, form);
  RunningServer server;
  const Json choice = server.ask("/v1/chat/completions", body)["choices"][0];
  const Json& message = choice["message"];
  const Json told = streamed(server, body);
  EXPECT_EQ(told["finish"], choice["finish_reason"]) << answer;
  EXPECT_EQ(told["content"], message["content"].is_null() ? Json("") : message["content"]) << answer;
  EXPECT_EQ(told["reasoning"], message["reasoning"].is_null() ? Json("") : message["reasoning"]) << answer;
  Json calls = Json::array();
  for (const Json& call : message.value("tool_calls", Json::array())) {
    EXPECT_TRUE(call["id"].get<std::string>().starts_with("chatcmpl-tool-"));
    EXPECT_EQ(call["type"], "function");
    calls.push_back(call["function"]);
  }
  EXPECT_EQ(told["calls"], calls) << answer;
  return {{"content", message["content"]},
          {"reasoning", message["reasoning"]},
          {"calls", calls},
          {"finish", choice["finish_reason"]},
          {"pieces", told["pieces"]}};
}

TEST(Messages, ACallIsReadAndNotShown) {
  const Json message =
      answered("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", request());
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["calls"].dump(), R"([{"name":"f","arguments":"{\"a\":1}"}])");
  EXPECT_EQ(message["finish"], "tool_calls");
  EXPECT_EQ(message["pieces"], 0);
}

// As Python's json writes them.
TEST(Messages, NumbersOfArgumentsKeepTheirDigits) {
  const std::string answer =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 12345678901234567890123, \"b\": "
      "[-9223372036854775809], \"c\": 1e400, \"d\": \"18446744073709551616\"}}\n</tool_call>";
  Json body = request();
  body["tools"][0]["function"]["parameters"]["properties"]["d"] = {{"type", "integer"}};
  const Json message = answered(answer, body);
  ASSERT_EQ(message["calls"].size(), 1u);
  EXPECT_EQ(
      message["calls"][0]["arguments"],
      R"({"a":12345678901234567890123,"b":[-9223372036854775809],"c":Infinity,"d":18446744073709551616})");
}

TEST(Messages, TextBeforeCallsIsToldAsItComes) {
  const char* const kAnswer =
      "I look <it> up.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"b\": [1.5, \"x\"]}}\n</tool_call>";
  const Json message = answered(kAnswer, request());
  EXPECT_EQ(message["content"], "I look <it> up.");
  ASSERT_EQ(message["calls"].size(), 2u);
  EXPECT_EQ(message["calls"][1]["arguments"], R"({"b":[1.5,"x"]})");
  EXPECT_GT(message["pieces"], 1);
  const Json one = answered(kAnswer, request(R"({"parallel_tool_calls": false})"));
  EXPECT_EQ(one["calls"].size(), 1u);
}

TEST(Messages, ReasoningIsAFieldOfItsOwn) {
  const Json message = answered("<think>\nHm, hm.\n</think>\n\nYes, 1 < 2 <b", request());
  EXPECT_EQ(message["reasoning"], "Hm, hm.");
  EXPECT_EQ(message["content"], "Yes, 1 < 2 <b");
  EXPECT_EQ(message["finish"], "stop");
  EXPECT_GT(message["pieces"], 2);
}

TEST(Messages, WithoutAKnownFormOrWithoutToolsAnswersAreText) {
  const std::string answer = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  for (const char* form : {"", "{{ messages }}"}) {
    const Json message = answered(answer, request(), form);
    EXPECT_EQ(message["content"], answer);
    EXPECT_EQ(message["finish"], "stop");
  }
  const Json none = answered(answer, request(R"({"tool_choice": "none"})"));
  EXPECT_EQ(none["content"], answer);
}

TEST(Messages, ABrokenCallIsText) {
  const std::string answer = "So: <tool_call>\n{\"name\": \"f\", \"arguments\": {\n</tool_call> or not";
  const Json message = answered(answer, request());
  EXPECT_EQ(message["content"], answer);
  EXPECT_EQ(message["calls"].size(), 0u);
  EXPECT_EQ(message["finish"], "stop");
}

TEST(Messages, ACallThatIsCutShortHasTheReasonLength) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  Json body = request();
  body["max_tokens"] = call.size();
  const Json message = answered(call + " and so on", body);
  EXPECT_EQ(message["calls"].size(), 1u);
  EXPECT_EQ(message["finish"], "length");
}

TEST(Messages, ARequestsOwnTemplateSaysTheForm) {
  const Json message =
      answered("<tool_call><function=f>\n<parameter=a>\n7\n</parameter>\n</function></tool_call>",
               request(R"({"chat_template": "<tool_call> <function= <|im_start|>"})"), "");
  EXPECT_EQ(message["calls"].dump(), R"([{"name":"f","arguments":"{\"a\":7}"}])");
}

TEST(Messages, WhatThePromptHasBegunIsNotTold) {
  const Json message = answered(" there", request(R"({"continue_final_message": true, "messages":
      [{"role": "user", "content": "x"}, {"role": "assistant", "content": "<|im_start|>assistant\nHello"}]})"));
  EXPECT_EQ(message["content"], " there");
}

}  // namespace
}  // namespace trl::serve::test
