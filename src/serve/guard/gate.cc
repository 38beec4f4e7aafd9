#include "serve/guard/gate.h"

#include <fmt/format.h>

#include "base/tensor_message.h"
#include "serve/guard/origin.h"
#include "serve/routes.h"

namespace trl::serve {

namespace {

constexpr std::string_view kJson = "application/json";

// Clients like curl send no type of JSON of their own accord.
void check_type(std::string_view type, BodyForm form) {
  std::string_view name = type.substr(0, type.find(';'));
  while (name.ends_with(' ') || name.ends_with('\t')) name.remove_suffix(1);
  const std::string_view wanted = form == BodyForm::json ? kJson : base::tensor_message::kType;
  const bool absent = form == BodyForm::json && name.empty();
  if (!absent && !same_name(name, wanted))
    throw Refusal(415, fmt::format("Content-Type: {} is not accepted; send {}", type, wanted));
}

void check_encoding(std::string_view encoding) {
  if (!encoding.empty() && !same_name(encoding, "identity"))
    throw Refusal(415, fmt::format("Content-Encoding: {} is not accepted; send the body as it is", encoding));
}

}  // namespace

std::optional<Answer> Gate::look(const Request& head, std::optional<uint64_t> length) const {
  std::string allow;
  try {
    if (!address_.empty() && !is_known_host(head.field("host"), address_, options_.hosts))
      throw Refusal(
          403, fmt::format("Host: {} is not a name of this server; see serve.hosts", head.field("host")));
    const std::string_view origin = head.field("origin");
    const bool allowed = !cors_fields(head, options_.origins).empty();
    const bool own = origin.empty() || origin == fmt::format("http://{}", head.field("host"));
    const bool asks = head.method == "OPTIONS" && !origin.empty();  // whether a page may send a request
    if (!allowed && (!own || asks))  // a page of another site may send without asking
      throw Refusal(403, fmt::format("Origin: {} is not one of serve.cors_origins", origin));
    if (asks) return Answer{204, ""};
    const bool open = head.path == "/health" || head.path == "/health/";
    if (!open && keys_.any() && !keys_.accept(head.field("authorization")))
      throw Refusal(401, "Authorization: a key is needed, as in `Authorization: Bearer KEY`");
    const Route& route = find_route(head.method, head.path, allow);
    const bool body = length.value_or(0) > 0 || !head.field("transfer-encoding").empty();
    if (route.method == "POST" && body) {
      check_type(head.field("content-type"), route.body);
      check_encoding(head.field("content-encoding"));
    }
    const bool tensors = route.body == BodyForm::tensors;
    const size_t most = tensors ? tensor_bytes_ : options_.max_body_bytes;
    if (length.value_or(0) > most)
      throw Refusal(413,
                    fmt::format("the body has {} bytes; send at most {} ({})", *length, most,
                                tensors ? "as the weights of this model can have" : "serve.max_body_bytes"));
    return std::nullopt;
  } catch (const Refusal& refusal) {
    Answer answer = answer_of(refusal);
    if (!allow.empty() && refusal.status == 405) answer.fields.emplace_back("Allow", allow);
    return answer;
  }
}

size_t Gate::most_bytes(const Request& head) const {
  std::string allow;
  return find_route(head.method, head.path, allow).body == BodyForm::tensors ? tensor_bytes_
                                                                             : options_.max_body_bytes;
}

}  // namespace trl::serve
