#include "serve/api/trl_generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/api/completions.h"
#include "serve/api/conversation.h"
#include "serve/api/prompt.h"
#include "serve/api/sinks.h"

namespace trl::serve {

namespace {

bool has_value(const base::Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

// Refuses entries of generation_kwargs that no field of sampling has read, as SamplingParams of vLLM does.
void check_kwargs(const base::Json& body, const Fields& fields) {
  const auto kwargs = body.find("generation_kwargs");
  if (kwargs == body.end() || !kwargs->is_object()) return;
  const std::vector<std::string> unread = fields.unread();
  for (const auto& [name, value] : kwargs->items())
    if (name == "model" || std::ranges::find(unread, name) != unread.end())
      throw Refusal(
          400, fmt::format("generation_kwargs: unknown name {}; give names of vLLM's SamplingParams", name),
          "generation_kwargs");
}

// Returns the body as one of /v1/completions: generation_kwargs override the fields. Only a regex overrides
// their structured_outputs.
base::Json with_kwargs(const Context& context, const base::Json& body) {
  base::Json all = body;
  const auto kwargs = body.find("generation_kwargs");
  if (kwargs == body.end() || kwargs->is_null()) return all;
  if (!kwargs->is_object()) refuse_value("generation_kwargs", *kwargs, "an object");
  const char* const regex =
      has_value(body, "structured_outputs_regex") ? "structured_outputs_regex" : "guided_decoding_regex";
  const bool by_regex = has_value(body, regex) && has_value(*kwargs, "structured_outputs");
  if (by_regex)
    context.log(base::LogLevel::warning,
                fmt::format("structured_outputs of generation_kwargs has no effect beside {}", regex));
  for (const auto& [name, value] : kwargs->items())
    if (!by_regex || name != "structured_outputs") all[name] = value;
  all.erase("generation_kwargs");
  return all;
}

// vLLM's most likely tokens of each place: by rank, the chosen one always among them.
base::Json logprobs_of(const Completion& completion, bool values) {
  base::Json places = base::Json::array();
  for (const TokenLogprob& token : completion.logprobs) {
    base::Json place = base::Json::array();
    for (const auto& [id, value] : ranked(token))
      place.push_back(values ? number_or_null(value) : base::Json(id));
    places.push_back(std::move(place));
  }
  return places;
}

Answer answer(const std::vector<Ids>& prompts, bool logprobs, const std::vector<Completion>& completions) {
  base::Json ids = base::Json::array(), values = base::Json::array(), tokens = base::Json::array();
  for (const Completion& completion : completions) {
    if (!completion.error.empty()) throw Refusal(500, completion.error);
    ids.push_back(completion.ids);
    values.push_back(logprobs_of(completion, true));
    tokens.push_back(logprobs_of(completion, false));
  }
  base::Json out = base::Json::object();
  out["prompt_ids"] = prompts;
  out["completion_ids"] = std::move(ids);
  out["logprobs"] = logprobs ? std::move(values) : base::Json();
  out["logprob_token_ids"] = logprobs ? std::move(tokens) : base::Json();
  return {200, json_text(out)};
}

// A request of either route: its prompts come from ids, texts or conversations.
template <class Prompts>
void write(Context& context, const std::shared_ptr<Exchange>& exchange, Prompts read) {
  const base::Json given = parse_body(std::exchange(exchange->request.body, {}));
  const base::Json body = with_kwargs(context, given);
  Fields fields(body);
  ServedModel& model = *context.models.front();
  const Limits& limits = context.options.limits;
  fields.refuse("prompt_logprobs", nullptr, "ask /get_sequence_logprobs/ for them");
  Sampling sampling = read_sampling(fields, limits, model.options());
  const bool absent = !body.contains("logprobs");
  set_logprobs(sampling, "logprobs", absent ? std::optional<int64_t>(0) : fields.integer("logprobs"), limits);
  const int64_t tokens = fields.integer("max_tokens", {1}).value_or(model.options().max_tokens);
  check_kwargs(given, fields);
  std::vector<Ids> prompts = read(fields, model);
  const int64_t room = room_for(prompts, tokens, model, "max_tokens");
  note_unread(context, fields);
  JobRequest job{prompts, sampling, room, false};
  auto sink = std::make_shared<WholeSink>(
      context.texts, exchange->reply, sampling,
      [prompts = std::move(prompts), logprobs = sampling.logprobs.has_value()](
          const std::vector<Completion>& all) { return answer(prompts, logprobs, all); },
      old_answer_of);
  submit(context, model, *exchange, std::move(job), std::move(sink));
}

}  // namespace

void trl_generate(Context& context, const std::shared_ptr<Exchange>& exchange) {
  write(context, exchange, [&](Fields& fields, const ServedModel& model) {
    const base::Json* const images = fields.find("images");
    const bool any =
        images != nullptr && std::ranges::any_of(*images, [](const auto& of) { return !of.is_null(); });
    if (any) throw Refusal(400, "images: this version has no images", "images");
    return read_prompts(fields.find("prompts"), "prompts", model, true, context.options.limits);
  });
}

void trl_chat(Context& context, const std::shared_ptr<Exchange>& exchange) {
  write(context, exchange, [&](Fields& fields, const ServedModel& model) {
    const base::Json* const all = fields.find("messages");
    constexpr std::string_view kAccepted = "a list of conversations, each a list of messages";
    if (all == nullptr) throw Refusal(400, fmt::format("messages: missing; give {}", kAccepted), "messages");
    if (!all->is_array() || all->empty()) refuse_value("messages", *all, kAccepted);
    const auto most = static_cast<size_t>(context.options.limits.max_prompts);
    if (all->size() > most)
      throw Refusal(400, fmt::format("messages: {} conversations; give at most {}", all->size(), most),
                    "messages");
    const TemplateFields conversation = read_template_fields(fields, context.options);
    std::vector<Ids> prompts;
    for (size_t i = 0; i < all->size(); ++i) {
      const base::Json messages = read_messages(&(*all)[i], fmt::format("messages[{}]", i));
      prompts.push_back(render_prompt(messages, conversation, model).ids);
    }
    return prompts;
  });
}

}  // namespace trl::serve
