// Any bytes as a request of a client: a head as plain values and a body, or a refusal; the same however they
// are torn.
#include <algorithm>

#include "in_memory_file.h"
#include "serve/guard/gate.h"
#include "serve/guard/origin.h"
#include "serve/http/head.h"
#include "serve/routes.h"

namespace {

using namespace trl::serve;
using trl::fuzz::require;

// What became of the bytes, as a text.
struct Read {
  std::string out;
  size_t used = 0;
};

constexpr uint32_t kHead = 2048;
constexpr size_t kBody = 10000;

const ServerOptions& options() {
  static const ServerOptions all = {.host = "127.0.0.1",
                                    .port = 8000,
                                    .keys = {"key"},
                                    .hosts = {"models.example"},
                                    .origins = {"https://a.example"},
                                    .request_templates = true,
                                    .max_connections = 8,
                                    .max_header_bytes = kHead,
                                    .max_body_bytes = kBody,
                                    .max_held_bytes = 100 * kBody,
                                    .stream_buffer = 1024,
                                    .header_timeout = 1,
                                    .body_timeout = 1,
                                    .write_timeout = 1,
                                    .idle_timeout = 1,
                                    .drain_timeout = 1,
                                    .limits = {}};
  return all;
}

std::string text_of(const Request& request, std::optional<uint64_t> length) {
  std::string out = request.method + " " + request.path + "?" + request.query + "\n";
  for (const auto& [name, value] : request.fields) {
    require(std::ranges::none_of(name, [](char c) { return c >= 'A' && c <= 'Z'; }));
    require(value.find('\n') == value.npos && value.find('\r') == value.npos);
    out += name + ": " + value + "\n";
  }
  static const Gate gate = [] {
    Gate made(options());
    made.listens_on("127.0.0.1:8000");
    return made;
  }();
  if (const auto refused = gate.look(request, length)) {
    require(refused->status == 204 || (refused->status >= 400 && refused->status < 600));
    return out + std::to_string(refused->status) + refused->body;
  }
  require(request.path == "/health" || request.path == "/health/" ||
          request.field("authorization").find("key") != std::string_view::npos);
  for (const auto& value : request.parameters("tags")) out += value;
  return out + request.parameter("level", "none");
}

std::string refused(const std::optional<Refusal>& refusal) {
  if (!refusal) return "gone";
  require(refusal->status >= 400 && !refusal->message.empty());
  return std::to_string(refusal->status) + refusal->message;
}

// Reads bytes as a connection does: up to a cut, and then in steps.
std::string read(std::string_view bytes, size_t cut, size_t step) {
  http::request_parser<http::buffer_body> parser;
  parser.header_limit(kHead);
  parser.body_limit(uint64_t{1} << 62);
  std::string out, body;
  size_t used = 0, known = cut;
  bool has_head = false;
  char room[512];
  for (;;) {
    if (parser.is_header_done() && !has_head) {
      has_head = true;
      std::optional<uint64_t> length;
      if (const auto told = parser.content_length()) length = *told;
      try {
        out = text_of(request_of(parser.get()), length);
      } catch (const Refusal& refusal) {
        return refused(refusal);
      }
    }
    if (has_head) {
      parser.get().body().data = room;
      parser.get().body().size = sizeof room;
    }
    if (parser.is_done()) break;
    beast::error_code error;
    const size_t taken = parser.put(net::buffer(bytes.data() + used, known - used), error);
    used += taken;
    if (has_head) body.append(room, sizeof room - parser.get().body().size);
    if (error == http::error::need_buffer) error = {};
    if (error == http::error::need_more) {
      if (known == bytes.size()) return out + "\n" + body + "\nmore";
      known = std::min(known + step, bytes.size());
      continue;
    }
    if (error) return out + "\n" + body + "\n" + refused(refusal_of_head(error));
    if (body.size() > kBody) return refused(too_large(body.size(), kBody));
    if (taken == 0 && known == bytes.size() && !has_head) return out + "more";
    if (taken == 0 && known < bytes.size())
      known = std::min(known + step, bytes.size());
    else if (taken == 0 && used == bytes.size())
      return out + "\n" + body + "\nmore";
  }
  return out + "\n" + body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.size() > kHead) return 0;  // so that a limit is met whole and in pieces alike
  const std::string whole = read(bytes, bytes.size(), 1);
  for (const auto& [cut, step] : {std::pair{size / 2, size}, {size / 3, size}, {size_t{0}, size_t{1}}}) {
    // What is wrong with a request that is not whole may be seen earlier or later.
    const std::string torn = read(bytes, cut, step);
    require(torn == whole || torn.ends_with("more") || whole.ends_with("more"));
  }
  return 0;
}
