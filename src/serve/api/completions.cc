#include "serve/api/completions.h"

#include <fmt/format.h>

#include <ctime>

#include "serve/api/completion_json.h"
#include "serve/api/prompt.h"
#include "serve/api/prompt_logprobs.h"

namespace trl::serve {

StreamOptions read_stream_options(Fields& fields) {
  StreamOptions out;
  out.stream = fields.boolean("stream").value_or(false);
  const base::Json* const options = fields.object("stream_options");
  if (options == nullptr) return out;
  if (!out.stream) throw Refusal(400, "stream_options: accepted only with stream: true", "stream_options");
  Fields inner(*options);
  out.usage = inner.boolean("include_usage").value_or(false);
  out.usage_always = inner.boolean("continuous_usage_stats").value_or(false);
  return out;
}

void note_unread(const Context& context, const Fields& fields) {
  const std::vector<std::string> names = fields.unread();
  if (!names.empty())
    context.log(base::LogLevel::debug,
                fmt::format("fields of a request that are not known: {}", fmt::join(names, ", ")));
}

void completions(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const base::Json body = parse_body(std::exchange(exchange->request.body, {}));
  Fields fields(body);
  ServedModel& model = context.model_named(fields.text("model"));
  const Limits& limits = context.options.limits;
  CompletionsRequest request{.id = random_id("cmpl-"),
                             .model = model.name_in_answers(fields.text("model")),
                             .created = static_cast<int64_t>(std::time(nullptr)),
                             .prompts = {},
                             .sampling = read_sampling(fields, limits, model.options())};
  set_logprobs(request.sampling, "logprobs", fields.integer("logprobs"), limits);
  fields.refuse("echo", false, "the answer has the completion alone");
  fields.refuse("suffix", nullptr, "models complete the end of a text");
  const StreamOptions stream = read_stream_options(fields);
  request.usage = stream.usage;
  request.usage_always = stream.usage_always;
  read_prompt_logprobs(fields, request.sampling, limits, stream.stream);
  request.prompts = read_prompts(fields.find("prompt"), "prompt", model,
                                 fields.boolean("add_special_tokens").value_or(true), limits);
  const std::optional<int64_t> given = fields.integer("max_tokens", {1});
  const int64_t room = room_for(request.prompts, given, model, "max_tokens");
  const int64_t max_tokens = given ? room : std::min(room, model.options().max_tokens);
  note_unread(context, fields);

  JobRequest job{request.prompts, request.sampling, max_tokens, stream.stream};
  std::shared_ptr<JobSink> sink;
  const Sampling sampling = request.sampling;
  if (stream.stream) {
    sink = std::make_shared<StreamSink>(context.texts, exchange->reply, context.options.stream_buffer,
                                        sampling, completions_format(std::move(request), model));
  } else {
    sink = std::make_shared<WholeSink>(context.texts, exchange->reply, sampling,
                                       [request = std::move(request), &model](std::vector<Completion> all) {
                                         return completions_answer(request, model, all);
                                       });
  }
  submit(context, model, *exchange, std::move(job), std::move(sink));
}

}  // namespace trl::serve
