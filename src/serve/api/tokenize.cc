#include "serve/api/tokenize.h"

#include <fmt/format.h>

#include "serve/api/completions.h"
#include "serve/api/conversation.h"
#include "serve/api/fields.h"
#include "serve/api/prompt.h"

namespace trl::serve {

namespace {

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
  const std::vector<int32_t> ids =
      prompt ? model.encode(*prompt, fields.boolean("add_special_tokens").value_or(true))
             : render_prompt(read_messages(messages, "messages"),
                             read_template_fields(fields, context.options), model)
                   .ids;
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
  const base::Json* const tokens = fields.find("tokens");
  if (tokens == nullptr) throw Refusal(400, "tokens: missing; give a list of token ids", "tokens");
  if (!tokens->is_array()) refuse_value("tokens", *tokens, "a list of token ids");
  const Ids ids = read_ids(*tokens, "tokens", "tokens", model);
  note_unread(context, fields);
  base::Json out = base::Json::object();
  out["prompt"] = model.decode(ids, false);
  exchange->reply->send({200, json_text(out)});
}

}  // namespace trl::serve
