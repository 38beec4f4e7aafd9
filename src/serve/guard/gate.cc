#include "serve/guard/gate.h"

#include <fmt/format.h>

#include "serve/guard/origin.h"
#include "serve/routes.h"

namespace trl::serve {

namespace {

// Returns whether a body may be JSON by its type, or the client does not say.
bool is_json(std::string_view type) {
  std::string_view name = type.substr(0, type.find(';'));
  while (name.ends_with(' ') || name.ends_with('\t')) name.remove_suffix(1);
  return name.empty() || same_name(name, "application/json");
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
    if (!allowed && (!own || head.method == "OPTIONS"))  // a page of another site may send without asking
      throw Refusal(403, fmt::format("Origin: {} is not one of serve.cors_origins", origin));
    if (head.method == "OPTIONS") return Answer{204, ""};
    const bool open = head.path == "/health" || head.path == "/health/";
    if (!open && keys_.any() && !keys_.accept(head.field("authorization")))
      throw Refusal(401, "Authorization: a key is needed, as in `Authorization: Bearer KEY`");
    const Route& route = find_route(head.method, head.path, allow);
    const bool body = length.value_or(0) > 0 || !head.field("transfer-encoding").empty();
    if (route.method == "POST" && body && !is_json(head.field("content-type")))
      throw Refusal(415, fmt::format("Content-Type: {} is not accepted; send application/json",
                                     head.field("content-type")));
    if (length.value_or(0) > options_.max_body_bytes)
      throw Refusal(413, fmt::format("the body has {} bytes; send at most {} (serve.max_body_bytes)", *length,
                                     options_.max_body_bytes));
    return std::nullopt;
  } catch (const Refusal& refusal) {
    Answer answer = answer_of(refusal);
    if (!allow.empty() && refusal.status == 405) answer.fields.emplace_back("Allow", allow);
    return answer;
  }
}

}  // namespace trl::serve
