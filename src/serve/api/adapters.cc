#include "serve/api/adapters.h"

#include <fmt/format.h>

#include "serve/api/completions.h"
#include "serve/api/fields.h"
#include "serve/weights/adapter_files.h"

namespace trl::serve {

namespace {

void need_loras(const ServedModel& model) {
  if (!model.options().enable_lora)
    throw Refusal(403, "this server takes no adapters; start it with --enable-lora (serve.enable_lora)");
}

std::string needed_text(Fields& fields, std::string_view name) {
  std::optional<std::string> value = fields.text(name);
  if (!value || value->empty())
    throw Refusal(400, fmt::format("'{}' must be provided.", name), std::string(name));
  return std::move(*value);
}

Answer text_answer(std::string text) { return {200, std::move(text), "text/plain; charset=utf-8"}; }

}  // namespace

void load_lora_adapter(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const base::Json body = parse_body(std::exchange(exchange->request.body, {}));
  Fields fields(body);
  ServedModel& model = context.model_named(fields.text("model"));
  need_loras(model);
  const std::string name = needed_text(fields, "lora_name"), path = needed_text(fields, "lora_path");
  const bool replace = fields.boolean("load_inplace").value_or(false);
  fields.refuse("is_3d_lora_weight", false, "there are no such adapters here");
  note_unread(context, fields);
  const std::optional<std::string>& folder = model.options().adapter_dir;
  if (!folder)
    throw Refusal(403,
                  "this server loads no adapters by path; start it with the folder that they are in "
                  "(serve.adapter_dir)");
  const std::string directory = adapter_below(*folder, path);
  check_rank(directory, model.options().max_lora_rank);
  Answer done = text_answer(fmt::format("Success: LoRA adapter '{}' added successfully.", name));
  context.load_adapter(model, name, directory, replace,
                       [reply = exchange->reply, done = std::move(done)](const std::exception_ptr& why) {
                         why ? send_refusal(*reply, refusal_of(why))
                             : send_answer(*reply, [&] { return done; });
                       });
}

void unload_lora_adapter(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const base::Json body = parse_body(std::exchange(exchange->request.body, {}));
  Fields fields(body);
  const std::string name = needed_text(fields, "lora_name");
  fields.ignore({"lora_int_id"});
  note_unread(context, fields);
  for (const auto& model : context.models) {
    if (!model->adapters().find(name)) continue;
    need_loras(*model);
    model->adapters().unload(name);
    return exchange->reply->send(
        text_answer(fmt::format("Success: LoRA adapter '{}' removed successfully.", name)));
  }
  need_loras(*context.models.front());
  throw Refusal(404, fmt::format("The lora adapter '{}' cannot be found.", name), "lora_name");
}

}  // namespace trl::serve
