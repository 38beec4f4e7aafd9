#include "serve/api/weights.h"

#include <fmt/format.h>

#include "serve/api/fields.h"

namespace trl::serve {

namespace {

ServedModel& weights_model(const Context& context, const Request& request) {
  return context.model_named(request.parameter("model", ""));
}

// Replaces the weights. An error says which ones the model has then.
base::Json take(Context& context, ServedModel& model, std::string_view message) {
  try {
    const WeightUpdate done = model.weights().take(message);
    context.log(base::LogLevel::info,
                fmt::format("the weights of {} are of version {}: {} tensors have changed", model.name(),
                            done.version, done.changed));
    return {{"version", done.version},
            {"changed", done.changed},
            {"bytes", done.bytes},
            {"seconds", {{"hash", done.hash_seconds}, {"swap", done.swap_seconds}}}};
  } catch (...) {
    Refusal refusal = current_refusal();
    refusal.message += model.weights().whole() ? fmt::format("; the model keeps its weights, version {}",
                                                             model.weights().version())
                                               : "; the weights are incomplete: send all of them again";
    context.log(base::LogLevel::warning,
                fmt::format("weights of {} were refused: {}", model.name(), refusal.message));
    throw refusal;
  }
}

}  // namespace

void list_weights(Context& context, const std::shared_ptr<Exchange>& exchange) {
  exchange->reply->send({200, json_text(weights_model(context, exchange->request).weights().list())});
}

void claim_weights(Context& context, Request& head) {
  Weights& weights = weights_model(context, head).weights();
  head.held = weights.claim();
  head.body = weights.spare_body();
}

void share_weights(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const std::string& peer = exchange->request.peer;
  if (!peer.starts_with("127.") && peer != "::1")
    throw Refusal(403, "memory is shared with clients on this machine; POST /trl/weights");
  const base::Json body = parse_body(exchange->request.body);
  Fields fields(body);
  Weights& weights = weights_model(context, exchange->request).weights();
  if (!weights.can_change()) weights.claim();  // which says why
  const std::optional<int64_t> bytes = fields.integer("bytes", {0});
  if (!bytes) throw Refusal(400, "bytes: give the size of the message", "bytes");
  const auto memory = weights.memories().give(static_cast<uint64_t>(*bytes), weights.most_bytes());
  exchange->reply->send(
      {200, json_text({{"token", memory.token}, {"path", memory.path}, {"bytes", *bytes}})});
}

void commit_weights(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const base::Json body = parse_body(exchange->request.body);
  Fields fields(body);
  ServedModel& model = weights_model(context, exchange->request);
  const std::optional<std::string> token = fields.text("token");
  if (!token) throw Refusal(400, "token: give that of /trl/weights/shared", "token");
  const std::optional<int64_t> bytes = fields.integer("bytes", {0});
  std::string answer;
  {
    const std::shared_ptr<const void> claim = model.weights().claim();
    const std::shared_ptr<SharedMemory> memory = model.weights().memories().take(*token);
    const uint64_t all = bytes ? static_cast<uint64_t>(*bytes) : memory->bytes();
    answer = json_text(take(context, model, memory->contents(all)));
  }
  exchange->reply->send({200, std::move(answer)});
}

void refuse_group(Context&, const std::shared_ptr<Exchange>& exchange) {
  throw Refusal(
      501, fmt::format("{}: this build has no NCCL; send an adapter (POST /v1/load_lora_adapter) or tensors "
                       "(POST /trl/weights)",
                       exchange->request.path));
}

void replace_weights(Context& context, const std::shared_ptr<Exchange>& exchange) {
  std::string answer;
  {
    std::string body = std::exchange(exchange->request.body, {});
    const std::shared_ptr<const void> claim = std::exchange(exchange->request.held, nullptr);
    ServedModel& model = weights_model(context, exchange->request);
    answer = json_text(take(context, model, body));
    model.weights().keep_body(std::move(body));
  }
  exchange->reply->send({200, std::move(answer)});
}

}  // namespace trl::serve
