#include "serve/http/head.h"

#include <fmt/format.h>

#include <algorithm>

namespace trl::serve {

namespace {

constexpr size_t kMostFields = 100;

std::string small(std::string_view name) {
  std::string out(name);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

// Throws Refusal for a head that is not as RFC 9112 has it (3.2, 6).
void check_fields(const Request& request, bool needs_host, bool chunked) {
  const auto count = [&](std::string_view name) {
    return std::ranges::count(request.fields, name,
                              [](const auto& field) { return std::string_view(field.first); });
  };
  const auto hosts = count("host"), encodings = count("transfer-encoding");
  if (hosts > 1) throw Refusal(400, fmt::format("the request has {} Host fields; send one", hosts));
  if (hosts == 0 && needs_host) throw Refusal(400, "the request has no Host field; send one");
  if (encodings == 0) return;
  if (count("content-length") > 0)
    throw Refusal(400, "the request has both Content-Length and Transfer-Encoding; send one");
  const std::string_view encoding = request.field("transfer-encoding");
  if (encodings > 1 || !chunked || !beast::iequals({encoding.data(), encoding.size()}, "chunked"))
    throw Refusal(501, "Transfer-Encoding: only chunked is known, by itself");
}

}  // namespace

Request request_of(const http::request<http::buffer_body>& head) {
  Request out;
  out.method = std::string(view(head.method_string()));
  std::string_view target = view(head.target());
  if (const size_t scheme = target.find("://"); !target.starts_with('/') && scheme != target.npos) {
    const size_t path = target.find('/', scheme + 3);
    target = path == target.npos ? "/" : target.substr(path);
  }
  if (target == "*" && out.method == "OPTIONS") target = "/";
  if (!target.starts_with('/')) throw Refusal(400, "the request's target is not a path");
  target = target.substr(0, target.find('#'));
  const size_t question = std::min(target.find('?'), target.size());
  out.path = decode_url(target.substr(0, question), false);
  out.query = std::string(target.substr(std::min(question + 1, target.size())));
  for (const auto& field : head) {
    if (out.fields.size() == kMostFields)
      throw Refusal(431, fmt::format("the request has more than {} header fields", kMostFields));
    out.fields.emplace_back(small(view(field.name_string())), std::string(view(field.value())));
  }
  check_fields(out, head.version() >= 11, head.chunked());
  return out;
}

std::optional<Refusal> refusal_of_head(beast::error_code error, std::string_view text) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return Refusal(431, "the request's header is too large; send fewer or shorter fields");
  if (error == http::error::body_limit) return Refusal(413, "the body is too large (serve.max_body_bytes)");
  const std::string_view line = text.substr(0, text.find('\n'));
  if (error == http::error::bad_version && line.size() < text.size() && !line.ends_with('\r'))
    return Refusal(400, "the request line ends with a line feed alone; end lines with CR LF");
  if (error == http::error::bad_version) return Refusal(505, "only HTTP/1.0 and HTTP/1.1 are known");
  if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
  const bool parsed = error.category() == make_error_code(http::error::bad_method).category();
  if (!parsed) return std::nullopt;
  return Refusal(400, fmt::format("the request is not HTTP: {}", error.message()));
}

Refusal too_large(uint64_t bytes, uint64_t limit) {
  return {413,
          fmt::format("the body has {} bytes or more; send at most {} (serve.max_body_bytes)", bytes, limit)};
}

Refusal too_much_held(uint64_t limit) {
  return {503,
          fmt::format("bodies and answers of other requests have {} bytes already (serve.max_held_bytes); "
                      "try again later",
                      limit)};
}

std::string reason_of(int status) {
  return std::string(view(http::obsolete_reason(static_cast<http::status>(status))));
}

}  // namespace trl::serve
