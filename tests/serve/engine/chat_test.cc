// Chats with a model: the prompt is the chat template's, and the tokens are those of a completion of it.
#include "running_server.h"

namespace trl::serve::test {
namespace {

class ChatWithAModel : public testing::Test {
 protected:
  void SetUp() override {
    trl_error* error = nullptr;
    ASSERT_EQ(trl_model_open(nullptr, TRL_SOURCE_DIR "/tests/golden/models/qwen2", nullptr, &model_, &error),
              TRL_OK)
        << trl_error_message(error);
  }
  void TearDown() override { trl_model_destroy(model_); }
  trl_model* model_ = nullptr;
};

Json conversation(const char* more = "{}") {
  Json body = Json::parse(R"({"messages": [{"role": "user", "content": "It opens at noon."}], "max_tokens": 8,
                              "seed": 3, "temperature": 1, "ignore_eos": true, "return_token_ids": true})");
  body.update(Json::parse(more));
  return body;
}

TEST_F(ChatWithAModel, ChatsAreCompletionsOfTheRenderedPrompt) {
  RunningServer server({}, model_);
  const Json chat = server.ask("/v1/chat/completions", conversation(R"({"n": 2})"));
  const Json tokens = server.ask("/tokenize", {{"messages", conversation()["messages"]}});
  EXPECT_EQ(chat["prompt_token_ids"], tokens["tokens"]);
  Json body = conversation(R"({"n": 2})");
  body.erase("messages");
  body["prompt"] = tokens["tokens"];
  const Json completion = server.ask("/v1/completions", body);
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(chat["choices"][i]["token_ids"], completion["choices"][i]["token_ids"]);
    EXPECT_EQ(chat["choices"][i]["message"]["content"], completion["choices"][i]["text"]);
  }
  EXPECT_NE(chat["choices"][0]["token_ids"], chat["choices"][1]["token_ids"]);
}

TEST_F(ChatWithAModel, StreamsTellTheSame) {
  RunningServer server({}, model_);
  const Json chat = server.ask("/v1/chat/completions", conversation());
  std::string text;
  Json ids = Json::array();
  for (const Json& event :
       events_of(server.post("/v1/chat/completions", conversation(R"({"stream": true})").dump()).body)) {
    const Json& choice = event["choices"][0];
    text += choice["delta"].value("content", "");
    for (const Json& id : choice.value("token_ids", Json::array())) ids.push_back(id);
  }
  EXPECT_EQ(text, chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(ids, chat["choices"][0]["token_ids"]);
}

TEST_F(ChatWithAModel, TheOldRouteWritesTheSame) {
  RunningServer server({}, model_);
  const Json chat = server.ask("/v1/chat/completions", conversation());
  Json body = conversation();
  body["messages"] = Json::array({body["messages"]});
  const Json old = server.ask("/chat/", body);
  EXPECT_EQ(old["prompt_ids"][0], chat["prompt_token_ids"]);
  EXPECT_EQ(old["completion_ids"][0], chat["choices"][0]["token_ids"]);
}

TEST_F(ChatWithAModel, TemplatesOfRequestsAreUsed) {
  RunningServer server({}, model_);
  Json body = conversation(R"({"return_prompt_text": true, "documents": [{"text": "d"}]})");
  body["chat_template"] = "{{ documents[0].text }}{% for m in messages %}[{{ m.content }}]{% endfor %}";
  EXPECT_EQ(server.ask("/v1/chat/completions", body)["prompt_text"], "d[It opens at noon.]");
  body["chat_template"] = "{% for %}";
  const Response broken = server.post("/v1/chat/completions", body.dump());
  EXPECT_EQ(broken.status, 400);
  EXPECT_NE(broken.body.find("chat template"), std::string::npos) << broken.body;
  body["chat_template"] = "{{ raise_exception('not so') }}";
  const Response raised = server.post("/v1/chat/completions", body.dump());
  EXPECT_EQ(raised.status, 400);
  EXPECT_NE(raised.body.find("not so"), std::string::npos) << raised.body;
}

}  // namespace
}  // namespace trl::serve::test
