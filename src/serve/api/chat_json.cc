#include "serve/api/chat_json.h"

#include <algorithm>
#include <cmath>

#include "serve/api/completion_json.h"
#include "serve/api/fields.h"
#include "serve/api/prompt_logprobs.h"

namespace trl::serve {

namespace {

base::Json bytes_of(const std::string& text) {
  base::Json bytes = base::Json::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

base::Json token_json(int32_t id, double value, const Sampling& sampling, const ServedModel& model) {
  const std::string text = token_text(id, sampling, model);
  base::Json out = base::Json::object();
  out["token"] = text;
  out["logprob"] = std::isnan(value) ? kLeastLogprob : std::max(value, kLeastLogprob);
  out["bytes"] = bytes_of(text);
  return out;
}

// By rank; the chosen one is always among them, as the last if it is not one of the most likely.
base::Json top_json(const TokenLogprob& token, const Sampling& sampling, const ServedModel& model) {
  base::Json out = base::Json::array();
  const auto most = static_cast<size_t>(sampling.logprobs.value_or(0));
  if (most == 0) return out;
  auto all = ranked(token);
  if (all.size() > most) all.erase(all.end() - 2);
  for (const auto& [id, value] : all) out.push_back(token_json(id, value, sampling, model));
  return out;
}

base::Json chat_logprobs(const std::vector<TokenLogprob>& tokens, const Sampling& sampling,
                         const ServedModel& model) {
  if (!sampling.logprobs) return nullptr;
  base::Json content = base::Json::array();
  for (const TokenLogprob& token : tokens) {
    base::Json one = token_json(token.id, token.value, sampling, model);
    one["top_logprobs"] = top_json(token, sampling, model);
    content.push_back(std::move(one));
  }
  base::Json out = base::Json::object();
  out["content"] = std::move(content);
  return out;
}

base::Json call_json(const ToolCall& call) {
  base::Json out = base::Json::object();
  out["id"] = call.id;
  out["type"] = "function";
  base::Json function = base::Json::object();
  function["name"] = call.name;
  function["arguments"] = call.arguments;
  out["function"] = std::move(function);
  return out;
}

base::Json text_or_null(const std::string& text) { return text.empty() ? base::Json() : base::Json(text); }

std::string finish_with(const std::string& finish, bool calls) {
  return calls && finish == "stop" ? "tool_calls" : finish;
}

base::Json chat_frame(const ChatRequest& request, const char* object) {
  base::Json out = base::Json::object();
  out["id"] = request.id;
  out["object"] = object;
  out["created"] = request.created;
  out["model"] = request.model;
  return out;
}

// Returns the whole message of a completion.
Message message_of(const ChatRequest& request, const Completion& completion) {
  if (!request.reader) return {{}, completion.text, {}};
  MessageStream stream(request.reader);
  Message message = stream.add(completion.text);
  Message rest = stream.end(completion.ids, completion.text);
  message.content += rest.content;
  message.reasoning += rest.reasoning;
  message.calls = std::move(rest.calls);
  return message;
}

base::Json message_json(const ChatRequest& request, const Message& message) {
  base::Json out = base::Json::object();
  out["role"] = request.role;
  out["content"] = message.calls.empty() ? base::Json(message.content) : text_or_null(message.content);
  for (const char* name : {"refusal", "annotations", "audio", "function_call"}) out[name] = nullptr;
  for (const ToolCall& call : message.calls) out["tool_calls"].push_back(call_json(call));
  out["reasoning"] = text_or_null(message.reasoning);
  return out;
}

class ChatFormat final : public StreamFormat {
 public:
  ChatFormat(ChatRequest request, const ServedModel& model) : request_(std::move(request)), model_(model) {
    choices_.resize(static_cast<size_t>(request_.sampling.n));
    if (!request_.reader) return;
    for (Choice& choice : choices_) choice.stream.emplace(request_.reader);
  }

  // The role of each choice.
  std::vector<std::string> first() override {
    std::vector<std::string> events;
    for (size_t i = 0; i < choices_.size(); ++i) {
      base::Json delta = base::Json::object();
      delta["role"] = request_.role;
      delta["content"] = "";
      base::Json choice = choice_json(i, std::move(delta));
      choice["logprobs"] = nullptr;
      choice["finish_reason"] = nullptr;
      base::Json out = event_with(std::move(choice));
      add_usage(out, 0);
      out["prompt_token_ids"] = request_.sampling.token_ids ? base::Json(request_.ids) : base::Json();
      if (request_.prompt_text) out["prompt_text"] = request_.prompt;
      events.push_back(json_text(out));
    }
    return events;
  }

  std::vector<std::string> events(const Delta& delta) override {
    Choice& choice = choices_[delta.choice];
    const bool over = !delta.finish.empty();
    choice.tokens += delta.ids.size();
    if (delta.choice == 0) cached_ += delta.cached_tokens;
    base::Json told = told_json(choice, delta);
    if (told.empty() && !over && !request_.sampling.logprobs && !request_.sampling.token_ids) return {};
    base::Json one = choice_json(delta.choice, std::move(told));
    one["logprobs"] = chat_logprobs(delta.logprobs, request_.sampling, model_);
    one["finish_reason"] = over ? base::Json(finish_with(delta.finish, choice.calls)) : base::Json();
    if (over) one["stop_reason"] = delta.stop_reason;
    one["token_ids"] = request_.sampling.token_ids ? base::Json(delta.ids) : base::Json();
    if (over) add_weights(delta.weights, one);
    base::Json out = event_with(std::move(one));
    add_usage(out, choice.tokens);
    return {json_text(out)};
  }

  std::string last(const std::vector<size_t>& tokens) override {
    if (!request_.usage) return {};
    size_t all = 0;
    for (const size_t count : tokens) all += count;
    base::Json out = chat_frame(request_, "chat.completion.chunk");
    out["choices"] = base::Json::array();
    out["usage"] = usage_json(request_.ids.size(), all, cached_);
    return json_text(out);
  }

 private:
  struct Choice {
    std::optional<MessageStream> stream;
    Ids ids;
    std::string text;
    size_t tokens = 0;
    bool calls = false;
  };

  // Returns the part of the message that a delta tells; empty: nothing.
  base::Json told_json(Choice& choice, const Delta& delta) const {
    base::Json told = base::Json::object();
    if (!choice.stream) {
      told["content"] = delta.text;
      return told;
    }
    choice.text += delta.text;
    choice.ids.insert(choice.ids.end(), delta.ids.begin(), delta.ids.end());
    Message message = choice.stream->add(delta.text);
    if (!delta.finish.empty()) {
      Message rest = choice.stream->end(choice.ids, choice.text);
      message.content += rest.content;
      message.reasoning += rest.reasoning;
      message.calls = std::move(rest.calls);
    }
    if (!message.content.empty()) told["content"] = message.content;
    if (!message.reasoning.empty()) told["reasoning"] = message.reasoning;
    for (size_t i = 0; i < message.calls.size(); ++i) {
      base::Json call = call_json(message.calls[i]);
      call["index"] = i;
      told["tool_calls"].push_back(std::move(call));
    }
    choice.calls = choice.calls || !message.calls.empty();
    return told;
  }

  static base::Json choice_json(size_t index, base::Json delta) {
    base::Json out = base::Json::object();
    out["index"] = index;
    out["delta"] = std::move(delta);
    return out;
  }

  base::Json event_with(base::Json choice) const {
    base::Json out = chat_frame(request_, "chat.completion.chunk");
    out["choices"] = base::Json::array();
    out["choices"].push_back(std::move(choice));
    return out;
  }

  base::Json stream_usage(size_t tokens) const {
    base::Json usage = usage_json(request_.ids.size(), tokens, std::nullopt);
    usage.erase("prompt_tokens_details");
    return usage;
  }

  void add_usage(base::Json& event, size_t tokens) const {
    if (request_.usage_always) event["usage"] = stream_usage(tokens);
  }

  const ChatRequest request_;
  const ServedModel& model_;
  std::vector<Choice> choices_;
  int64_t cached_ = 0;
};

}  // namespace

Answer chat_answer(const ChatRequest& request, const ServedModel& model,
                   const std::vector<Completion>& completions) {
  const Sampling& sampling = request.sampling;
  base::Json choices = base::Json::array();
  size_t tokens = 0;
  for (size_t i = 0; i < completions.size(); ++i) {
    const Completion& completion = completions[i];
    const Message message = message_of(request, completion);
    tokens += completion.ids.size();
    base::Json choice = base::Json::object();
    choice["index"] = i;
    choice["message"] = message_json(request, message);
    choice["logprobs"] = chat_logprobs(completion.logprobs, sampling, model);
    choice["finish_reason"] = finish_with(completion.finish, !message.calls.empty());
    choice["stop_reason"] = completion.stop_reason;
    choice["token_ids"] = sampling.token_ids ? base::Json(completion.ids) : base::Json();
    add_weights(completion.weights, choice);
    choices.push_back(std::move(choice));
  }
  base::Json out = chat_frame(request, "chat.completion");
  out["choices"] = std::move(choices);
  out["service_tier"] = nullptr;
  out["system_fingerprint"] = nullptr;
  out["usage"] = usage_json(request.ids.size(), tokens, cached_tokens(completions, sampling.n));
  out["prompt_logprobs"] =
      completions.empty() ? base::Json() : prompt_logprobs_json(completions.front(), model);
  out["prompt_token_ids"] = sampling.token_ids ? base::Json(request.ids) : base::Json();
  out["prompt_text"] = request.prompt_text ? base::Json(request.prompt) : base::Json();
  out["kv_transfer_params"] = nullptr;
  return {200, json_text(out)};
}

std::unique_ptr<StreamFormat> chat_format(ChatRequest request, const ServedModel& model) {
  return std::make_unique<ChatFormat>(std::move(request), model);
}

}  // namespace trl::serve
