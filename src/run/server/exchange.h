// Requests to a server with JSON in and out, and how they are repeated: as TRL's client does.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "base/log.h"
#include "http/module.h"

namespace trl::run {

// The key that errors of a server name: a run that ends with one is saved before.
inline constexpr std::string_view kServerKey = "vllm_server_base_url";

struct Answer {
  int32_t status = 0;
  std::string body;
};

// A request that fails is repeated at most `all` times, `statuses` of them for the status 500, 502 or 503.
// The first repetition comes at once, the others after factor * 2, 4, 8, ... seconds.
struct Retries {
  int all = 5, statuses = 3;
  double factor = 2;
};

class Exchange {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 30;  // of an answer

  // url: http:// or https://, without a slash at its end. key: of the server; empty: none.
  Exchange(const http::Module& module, std::string url, std::string key, base::LogSink& log,
           Retries retries = {}, size_t most_bytes = kMostBytes)
      : module_(module),
        url_(std::move(url)),
        key_(std::move(key)),
        log_(log),
        retries_(retries),
        most_bytes_(most_bytes) {}
  const std::string& url() const { return url_; }

  // Repeat a request that fails. Throw Error(io) for kServerKey after the last try; another status than 200
  // is the caller's. Waits can be paused and cancelled.
  Answer get(std::string_view path);
  // repeatable: asking twice is as good as asking once. Else it is repeated only if it never reached the
  // server.
  Answer post(std::string_view path, const base::Json& body, bool repeatable);
  Answer post_bytes(std::string_view path, std::string_view body, std::string_view type, bool repeatable);
  // Asks once, for as long as goes_on says so, on any thread. Throws the same Error(io) without an answer.
  Answer post_while(std::string_view path, const base::Json& body, const std::function<bool()>& goes_on);
  // Throw the same Error(io) for another status than 200, and for a body that is not JSON.
  base::Json get_json(std::string_view path);
  base::Json post_json(std::string_view path, const base::Json& body, bool repeatable);
  // Asks once, for as long as goes_on says so; 0: nothing answered. *why: the reason.
  int32_t status_of(std::string_view path, std::string* why, const std::function<bool()>& goes_on = {});

  // Returns the JSON of an answer. Throws as get_json.
  base::Json json_of(std::string_view path, const Answer& answer) const;
  // Returns the beginning of an answer's body, as a line for messages.
  static std::string shown(const Answer& answer);

  // Throws Error(io): "Request failed: CODE, TEXT", as TRL's client.
  [[noreturn]] void refuse(std::string_view path, const Answer& answer) const;
  [[noreturn]] void fail_server(std::string_view path, std::string_view why) const;

 private:
  struct Attempt {
    http::Outcome outcome;
    Answer answer;
    std::string why;  // it was not answered
  };
  struct Body {
    std::string_view bytes = {}, type = "application/json";
  };
  Attempt attempt(const char* method, std::string_view path, const Body& body,
                  const std::function<bool()>& goes_on = {}) const;
  Answer repeat(const char* method, std::string_view path, const Body& body, bool repeatable);

  const http::Module& module_;
  const std::string url_, key_;
  base::LogSink& log_;
  const Retries retries_;
  const size_t most_bytes_;
};

// Waits; throws Error(cancelled) if the call must end.
void wait_seconds(double seconds);

}  // namespace trl::run
