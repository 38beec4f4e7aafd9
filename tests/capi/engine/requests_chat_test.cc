// Requests that are conversations: rows with tools, and the next turn of one that was kept.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/requests.h"

namespace {

using host::add;
using host::Error;
using host::finish;
using host::generator_of;
using host::taken;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

const host::Settings kTwelveTokens = {{"generate.max_new_tokens", "12"}, {"generate.ignore_eos", "true"}};
const host::Settings kChat = host::with(kTwelveTokens, {{"generate.chat", "true"}});

host::Tokenizer tokenizer_of_the_model() {
  trl_tokenizer* made = nullptr;
  Error error;
  EXPECT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, error), TRL_OK)
      << error.message();
  return host::Tokenizer(made);
}

// A conversation in the model's template, up to the next answer.
std::string in_template(const host::Json& messages, const host::Json& tools = nullptr) {
  host::Json conversation = {{"messages", messages}, {"add_generation_prompt", true}};
  if (!tools.is_null()) conversation["tools"] = tools;
  const std::string json = conversation.dump();
  std::string text(4096, '\0');
  size_t size = 0;
  Error error;
  EXPECT_EQ(trl_tokenizer_apply_chat_template(tokenizer_of_the_model().get(), json.data(), json.size(),
                                              text.data(), text.size(), &size, error),
            TRL_OK)
      << error.message();
  EXPECT_LE(size, text.size());
  text.resize(std::min(size, text.size()));
  return text;
}

std::vector<int32_t> ids_of(const std::string& text) {
  std::vector<int32_t> ids(text.size() + 1);
  size_t count = 0;
  EXPECT_EQ(trl_tokenizer_encode(tokenizer_of_the_model().get(), text.data(), text.size(), 0, -1, ids.data(),
                                 ids.size(), &count, nullptr),
            TRL_OK);
  ids.resize(std::min(count, ids.size()));
  return ids;
}

host::Json message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

TEST(RequestChats, RowsHaveTheirTools) {
  NEED_MODEL();
  const host::Json tools = host::parse(
      R"([{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {}}}])");
  const host::Json messages = host::Json::array({message("user", "How much is 2 + 2?")});
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const auto row = [&](const char* column, const host::Json& given) {
    return host::Json{{column, messages}, {"tools", given}}.dump();
  };
  const size_t with_text = add(g.get(), in_template(messages, tools), kTwelveTokens);
  const std::vector<size_t> rows = {add(g.get(), row("messages", tools), kChat),
                                    add(g.get(), row("prompt", tools), kChat),
                                    add(g.get(), row("messages", tools.dump()), kChat)};
  const size_t without = add(g.get(), host::Json{{"messages", messages}}.dump(), kChat);
  finish(g.get());
  const nlohmann::json want = taken(g.get(), with_text);
  for (const size_t number : rows) EXPECT_EQ(taken(g.get(), number), want) << number;
  EXPECT_NE(taken(g.get(), without)["token_ids"], want["token_ids"]);
}

// As examples/c/generate does it: what the template writes behind an answer continues a kept completion.
TEST(RequestChats, TheNextTurnFollowsTheTemplate) {
  NEED_MODEL();
  const std::string mark = "ANSWER-4f1c", question = "Who keeps it?", next = "Since when?";
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const size_t number = add(g.get(), question, host::with(kChat, {{"generate.keep", "true"}}));
  finish(g.get());
  const nlohmann::json first = taken(g.get(), number);
  ASSERT_EQ(first["finish_reason"], "length");
  const std::string marked = in_template(
      host::Json::array({message("user", question), message("assistant", mark), message("user", next)}));
  const std::string rest = marked.substr(marked.rfind(mark) + mark.size());
  EXPECT_EQ(rest, "<|im_end|>\n<|im_start|>user\nSince when?<|im_end|>\n<|im_start|>assistant\n");
  Error error;
  ASSERT_EQ(trl_generator_extend(g.get(), number, rest.data(), rest.size(), nullptr, 0,
                                 host::config(kTwelveTokens).get(), error),
            TRL_OK)
      << error.message();
  finish(g.get());
  const nlohmann::json second = taken(g.get(), number);
  // The same as the ids of the whole conversation.
  std::vector<int32_t> ids = ids_of(in_template(host::Json::array({message("user", question)})));
  for (const int32_t id : first["token_ids"]) ids.push_back(id);
  for (const int32_t id : ids_of(rest)) ids.push_back(id);
  size_t whole = 0;
  ASSERT_EQ(trl_generator_add(g.get(), nullptr, 0, ids.data(), ids.size(), host::config(kTwelveTokens).get(),
                              &whole, error),
            TRL_OK)
      << error.message();
  finish(g.get());
  EXPECT_EQ(taken(g.get(), whole), second);
}

}  // namespace
