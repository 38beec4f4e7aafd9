// A server of a test, without a network: a function answers what libtrl_http.so would send.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "http/module.h"
#include "run/server/exchange.h"

namespace trl::test {

class ScriptedServer {
 public:
  struct Asked {
    std::string method, path, body;
    std::vector<std::string> headers;
  };
  struct Answered {
    int32_t status = 200;
    std::string body = {};
    http::Outcome outcome = http::Outcome::answered;
  };
  using Script = std::function<Answered(const Asked&)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) { current() = this; }
  ~ScriptedServer() { current() = nullptr; }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  // Repetitions come after a few milliseconds.
  run::Exchange exchange(base::LogSink& log, const std::string& key = "") const {
    return {module(), "http://server:8000", key, log, {.factor = 0.001}};
  }
  std::vector<Asked> asked = {};

 private:
  static ScriptedServer*& current() {
    static ScriptedServer* server = nullptr;
    return server;
  }
  static const http::Module& module() {
    static const http::Module own = {http::kModuleVersion, exchanged};
    return own;
  }
  static http::Outcome exchanged(const http::Request* request, const http::Reply* reply, int32_t* status) {
    const std::string url = request->url;
    Asked asked{request->method, url.substr(url.find('/', url.find("://") + 3)), "", {}};
    if (request->body_size > 0) asked.body.assign(request->body, request->body_size);
    for (size_t i = 0; i < request->header_count; ++i) asked.headers.emplace_back(request->headers[i]);
    current()->asked.push_back(asked);
    const Answered answer = current()->script_(asked);
    *status = answer.status;
    const std::string why = "no route to it";
    if (answer.outcome != http::Outcome::answered) reply->fail(reply->to, why.data(), why.size());
    if (!reply->goes_on(reply->to)) return http::Outcome::stopped;
    if (answer.outcome == http::Outcome::answered)
      reply->put(reply->to, answer.body.data(), answer.body.size());
    return answer.outcome;
  }

  const Script script_;
};

// Keeps the lines that were logged.
class KeptLog final : public base::LogSink {
 public:
  void write(base::LogLevel level, std::string_view, std::string_view text) noexcept override {
    lines.emplace_back(level, std::string(text));
  }
  bool warns_of(std::string_view part) const {
    for (const auto& [level, text] : lines)
      if (level == base::LogLevel::warning && text.find(part) != std::string::npos) return true;
    return false;
  }
  std::vector<std::pair<base::LogLevel, std::string>> lines = {};
};

}  // namespace trl::test
