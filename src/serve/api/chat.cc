#include "serve/api/chat.h"

#include <algorithm>
#include <ctime>

#include "base/text/number.h"
#include "serve/api/chat_json.h"
#include "serve/api/completions.h"
#include "serve/api/conversation.h"
#include "serve/api/prompt_logprobs.h"

namespace trl::serve {

namespace {

// Returns whether calls are looked for in the answers.
bool reads_calls(Fields& fields, const TemplateFields& conversation) {
  const base::Json* const choice = fields.find("tool_choice");
  const bool has_tools = !conversation.tools.is_null();
  if (choice == nullptr) return has_tools;
  if (is_text(*choice, "none")) return false;
  if (!is_text(*choice, "auto"))
    refuse_value("tool_choice", *choice, "\"none\" or \"auto\"; this version cannot force a call");
  if (!has_tools) throw Refusal(400, "When using `tool_choice`, `tools` must be set.", "tool_choice");
  return true;
}

void read_chat_logprobs(Fields& fields, Sampling& sampling, const Limits& limits) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const int64_t top = fields.integer("top_logprobs").value_or(0);
  if (!wanted && top != 0)
    throw Refusal(400, "when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs");
  if (wanted) set_logprobs(sampling, "top_logprobs", top, limits);
}

// Returns how many tokens the answers may have.
int64_t read_max_tokens(Fields& fields, const Ids& ids, const ServedModel& model) {
  const auto old = fields.integer("max_tokens", {1});
  const auto given = fields.integer("max_completion_tokens", {1});
  if (given || old)
    return room_for({ids}, given ? given : old, model, given ? "max_completion_tokens" : "max_tokens");
  const int64_t room = room_for({ids}, std::nullopt, model, "messages");
  const auto& options = model.options().generation;
  const auto most = options.find("generate.max_new_tokens");
  if (most == options.end()) return room;
  return std::min(room, base::parse_int64(most->second).value_or(room));
}

void refuse_chat_fields(Fields& fields) {
  fields.refuse("echo", false, "the answer has the new message alone");
  fields.refuse("include_reasoning", true, "answers have all that the model wrote");
  for (const char* name : {"functions", "function_call"})
    fields.refuse(name, nullptr, "give tools and tool_choice");
  fields.refuse("modalities", base::Json::array({"text"}), "this version writes text alone");
  fields.refuse("web_search_options", nullptr, "this version searches nothing");
  for (const char* name : {"media_io_kwargs", "mm_processor_kwargs", "audio"})
    fields.refuse(name, nullptr, "this version takes text alone");
  fields.ignore({"session_id", "store", "metadata"});
}

}  // namespace

void chat_completions(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const base::Json body = parse_body(std::exchange(exchange->request.body, {}));
  Fields fields(body);
  ServedModel& model = context.model_named(fields.text("model"));
  const Limits& limits = context.options.limits;
  ChatRequest request{.id = random_id("chatcmpl-"),
                      .model = model.name_in_answers(fields.text("model")),
                      .role = "assistant",
                      .created = static_cast<int64_t>(std::time(nullptr)),
                      .prompt = {},
                      .ids = {},
                      .sampling = read_sampling(fields, limits, model.options()),
                      .reader = nullptr};
  const base::Json messages = read_messages(fields.find("messages"), "messages");
  const TemplateFields conversation = read_template_fields(fields, context.options);
  const bool calls = reads_calls(fields, conversation);
  const bool all_calls = fields.boolean("parallel_tool_calls").value_or(true);
  read_chat_logprobs(fields, request.sampling, limits);
  refuse_chat_fields(fields);
  request.prompt_text = fields.boolean("return_prompt_text").value_or(false);
  const StreamOptions stream = read_stream_options(fields);
  request.usage = stream.usage;
  request.usage_always = stream.usage_always;
  read_prompt_logprobs(fields, request.sampling, limits, stream.stream);
  Prompt prompt = render_prompt(messages, conversation, model);
  const int64_t max_tokens = read_max_tokens(fields, prompt.ids, model);
  note_unread(context, fields);

  if (!conversation.adds_prompt) request.role = messages.back()["role"].get<std::string>();
  if (calls)
    request.reader =
        message_reader(model, conversation.chat_template, prompt.text, conversation.tools, all_calls);
  request.prompt = std::move(prompt.text);
  request.ids = prompt.ids;
  const Sampling sampling = request.sampling;
  JobRequest job{{std::move(prompt.ids)}, sampling, max_tokens, stream.stream};
  std::shared_ptr<JobSink> sink;
  if (stream.stream) {
    sink = std::make_shared<StreamSink>(context.texts, exchange->reply, context.options.stream_buffer,
                                        sampling, chat_format(std::move(request), model));
  } else {
    sink = std::make_shared<WholeSink>(context.texts, exchange->reply, sampling,
                                       [request = std::move(request), &model](std::vector<Completion> all) {
                                         return chat_answer(request, model, all);
                                       });
  }
  submit(context, model, *exchange, std::move(job), std::move(sink));
}

}  // namespace trl::serve
