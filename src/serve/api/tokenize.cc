#include "serve/api/tokenize.h"

#include "serve/api/completions.h"
#include "serve/api/fields.h"

namespace trl::serve {

namespace {

// Returns the conversation of a request as the chat template takes it.
base::Json conversation_of(Fields& fields, const base::Json& messages) {
  base::Json out = base::Json::object();
  out["messages"] = messages;
  if (const base::Json* const tools = fields.find("tools")) out["tools"] = *tools;
  if (const base::Json* const kwargs = fields.object("chat_template_kwargs"))
    out["chat_template_kwargs"] = *kwargs;
  const bool continues = fields.boolean("continue_final_message").value_or(false);
  out["continue_final_message"] = continues;
  out["add_generation_prompt"] = fields.boolean("add_generation_prompt").value_or(!continues);
  fields.refuse("chat_template", nullptr, "the model's own is used");
  return out;
}

std::string piece_of(const ServedModel& model, int32_t id) {
  return filled<std::string>([&](char* piece, size_t capacity, size_t* size, trl_error** error) {
    return trl_tokenizer_get_piece(model.tokenizer(), id, piece, capacity, size, error);
  });
}

}  // namespace

void tokenize(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const base::Json body = parse_body(exchange->request.body);
  Fields fields(body);
  const ServedModel& model = context.model_named(fields.text("model"));
  const auto prompt = fields.text("prompt");
  const base::Json* const messages = fields.find("messages");
  if (prompt.has_value() == (messages != nullptr))
    throw Refusal(400, "prompt: give either prompt or messages", "prompt");
  const bool special = fields.boolean("add_special_tokens").value_or(prompt.has_value());
  const std::vector<int32_t> ids =
      model.encode(prompt ? *prompt : model.render(conversation_of(fields, *messages)), special);
  base::Json pieces;
  if (fields.boolean("return_token_strs").value_or(false)) {
    pieces = base::Json::array();
    for (const int32_t id : ids) pieces.push_back(piece_of(model, id));
  }
  note_unread(context, fields);
  base::Json out = base::Json::object();
  out["count"] = ids.size();
  out["max_model_len"] = model.max_length() ? base::Json(*model.max_length()) : base::Json();
  out["tokens"] = ids;
  out["token_strs"] = std::move(pieces);
  exchange->reply->send({200, json_text(out)});
}

void detokenize(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const base::Json body = parse_body(exchange->request.body);
  Fields fields(body);
  const ServedModel& model = context.model_named(fields.text("model"));
  const auto tokens = fields.ids("tokens");
  if (!tokens) throw Refusal(400, "tokens: missing; give a list of token ids", "tokens");
  note_unread(context, fields);
  base::Json out = base::Json::object();
  out["prompt"] = model.decode(*tokens, false);
  exchange->reply->send({200, json_text(out)});
}

}  // namespace trl::serve
