// One HTTP request over libcurl. Redirects are not followed, but returned to the caller.
#pragma once
#include <curl/curl.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cli/hub/environment.h"
#include "cli/hub/repo.h"

namespace trl::cli::hub {

struct Reply {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in small letters

  std::string header(const std::string& name) const;  // empty: the reply has no such header
  bool is_redirect() const { return status >= 300 && status < 400 && headers.contains("location"); }
};

class Request {
 public:
  // Gets bytes of a body of status 200 or 206; false stops the transfer.
  using Sink = std::function<bool(const Reply& reply, std::string_view bytes)>;
  enum class Method : uint8_t { get, head };

  // from: the first byte to ask for. Only the endpoint's own scheme, host and port get the token.
  Request(const Settings& settings, Method method, const std::string& url, int64_t from, Sink sink);
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  CURL* handle() const { return handle_; }
  const Reply& reply() const { return reply_; }
  const std::string& url() const { return url_; }
  std::string location() const;  // target of a redirect, as a whole URL
  std::string why(CURLcode code) const;

 private:
  static size_t on_header(char* bytes, size_t size, size_t count, void* self);
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);
  static size_t on_body(char* bytes, size_t size, size_t count, void* self);

  CURL* handle_;
  curl_slist* headers_ = nullptr;
  std::string url_, why_asked_;
  Sink sink_;
  Reply reply_;
  char error_[CURL_ERROR_SIZE] = "";
};

// Returns the seconds left for the hub's first answer in this process; infinite once it has answered.
double seconds_to_reach();

// Returns "https://host:443" for a URL; throws HubError for another scheme than http and https.
std::string origin_of(const std::string& url);

// Returns whether a request that ended so may be repeated, because the network or the hub failed and not the
// request.
bool is_passing(CURLcode code);
bool is_passing(long status);

// Returns the seconds that a reply of 429 or 503 asks to wait; `otherwise` if it does not say.
double seconds_to_wait(const Reply& reply, double otherwise);

// Explains a refusal of the hub in words: throws HubError for a reply whose status is an error. file: the
// requested file, or empty.
[[noreturn]] void refuse(const Settings& settings, const Repo& repo, const std::string& file,
                         const Reply& reply);

// Decides how often a request is repeated, and after how many seconds.
class Retries {
 public:
  static constexpr int kMost = 5;
  // Returns the seconds to wait before the next try; negative: no more tries, because there were enough, the
  // hub asks for more than two minutes, or nothing has answered yet and it is time to say so.
  double next(const Reply& reply) {
    if (++made_ > kMost) return -1;
    const double seconds = seconds_to_wait(reply, std::min(0.5 * (1 << made_), 8.0));
    return seconds > kLongest || seconds >= seconds_to_reach() ? -1 : std::max(seconds, 0.1);
  }
  void progress() { made_ = 0; }  // bytes were received: further tries are worthwhile

 private:
  static constexpr double kLongest = 120;
  int made_ = 0;
};

}  // namespace trl::cli::hub
