#include "serve/api/sleep.h"

#include "base/text/number.h"
#include "serve/api/fields.h"

namespace trl::serve {

namespace {

// Returns the model of the query's `model`, or the first.
ServedModel& model_of(const Context& context, const Exchange& exchange) {
  return context.model_named(exchange.request.parameter("model", ""));
}

void need_sleep_mode(const ServedModel& model) {
  if (!model.options().enable_sleep_mode)
    throw Refusal(403,
                  "this server does not sleep by request; start it with --enable-sleep-mode "
                  "(serve.enable_sleep_mode)");
}

Answer nothing() { return {200, ""}; }

}  // namespace

void sleep_model(Context& context, const std::shared_ptr<Exchange>& exchange) {
  ServedModel& model = model_of(context, *exchange);
  need_sleep_mode(model);
  const std::string text = exchange->request.parameter("level", "1");
  const std::optional<int64_t> level = base::parse_int64(text);
  if (!level) throw Refusal(400, "level: \"" + text + "\" is not accepted; give 1 or 2", "level");
  const SleepMode mode = sleep_mode(exchange->request.parameter("mode", "abort"));
  model.worker().sleep(*level, mode, [reply = exchange->reply, &model](const std::optional<Refusal>& why) {
    if (!why) model.weights().release_memory();
    why ? send_refusal(*reply, *why) : send_answer(*reply, nothing);
  });
}

void wake_up_model(Context& context, const std::shared_ptr<Exchange>& exchange) {
  ServedModel& model = model_of(context, *exchange);
  need_sleep_mode(model);
  model.worker().wake_up(wake_tags(exchange->request.parameters("tags")),
                         [reply = exchange->reply](const std::exception_ptr& why) {
                           why ? send_refusal(*reply, refusal_of(why)) : send_answer(*reply, nothing);
                         });
}

void is_sleeping(Context& context, const std::shared_ptr<Exchange>& exchange) {
  base::Json out = base::Json::object();
  out["is_sleeping"] = !model_of(context, *exchange).worker().awake();
  exchange->reply->send({200, json_text(out)});
}

}  // namespace trl::serve
