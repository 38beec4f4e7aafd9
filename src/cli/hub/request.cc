#include "cli/hub/request.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cctype>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <utility>

namespace trl::cli::hub {

namespace {

constexpr long kConnectSeconds = 10;
constexpr double kReachSeconds =
    3.9;  // for the first answer of a hub, tries included; it is looked at each second
constexpr double kTellAfterSeconds = 1;
constexpr long kSilentSeconds = 30;  // a transfer that receives nothing for this long has failed

struct CurlLibrary {
  CurlLibrary() { curl_global_init(CURL_GLOBAL_DEFAULT); }
};

struct Reach {
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  bool answered = false, told = false;
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }
};

Reach& reach() {
  static Reach of_process;  // starts with the first request
  return of_process;
}

std::string trimmed_value(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin));
}

std::string part_of(CURLU* url, CURLUPart part, unsigned flags) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return "";
  std::string copy = text;
  curl_free(text);
  return copy;
}

using Url = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string about_token(const Settings& settings) {
  if (settings.token.empty())
    return "for a private one give a token, in HF_TOKEN or as 'hf auth login' stores it";
  return fmt::format("the token in {} must be allowed to read it", settings.token_origin);
}

std::string missing(const Settings& settings, const Repo& repo, long status) {
  const char* const other = repo.type == Repo::Type::model ? "dataset" : "model";
  return fmt::format(
      "the {} is missing or private ({}): check the name, which may also be that of a {}{}; {}",
      repo.type_name(), status, other, repo.by_download ? fmt::format(" (--repo_type {})", other) : "",
      about_token(settings));
}

}  // namespace

std::string Reply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

double seconds_to_reach() {
  return reach().answered ? std::numeric_limits<double>::infinity() : kReachSeconds - reach().seconds();
}

std::string origin_of(const std::string& url) {
  const Url parsed(curl_url(), curl_url_cleanup);
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK)
    throw HubError(fmt::format("'{}' is not a URL", url));
  const std::string scheme = part_of(parsed.get(), CURLUPART_SCHEME, 0);
  if (scheme != "http" && scheme != "https")
    throw HubError(fmt::format("'{}' is not accepted: a URL of http or https is", url));
  std::string host = part_of(parsed.get(), CURLUPART_HOST, 0);
  std::ranges::transform(host, host.begin(), [](unsigned char c) { return std::tolower(c); });
  return scheme + "://" + host + ":" + part_of(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

Request::Request(const Settings& settings, Method method, const std::string& url, int64_t from, Sink sink)
    : url_(url), why_asked_(settings.why), sink_(std::move(sink)) {
  static const CurlLibrary library;
  const bool own = origin_of(url) == origin_of(settings.endpoint);
  handle_ = curl_easy_init();
  if (handle_ == nullptr) throw HubError("libcurl cannot be used: curl_easy_init failed");
  headers_ = curl_slist_append(headers_, "Accept-Encoding: identity");  // sizes are the files' own
  if (own && !settings.token.empty())
    headers_ = curl_slist_append(headers_, ("Authorization: Bearer " + settings.token).c_str());
  curl_easy_setopt(handle_, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(handle_, CURLOPT_USERAGENT, "trl");
  curl_easy_setopt(handle_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle_, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
  const double left = std::clamp(seconds_to_reach(), 0.1, static_cast<double>(kConnectSeconds));
  curl_easy_setopt(handle_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(left * 1000));
  curl_easy_setopt(handle_, CURLOPT_QUICK_EXIT, 1L);  // does not wait for a silent name server
  curl_easy_setopt(handle_, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle_, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle_, CURLOPT_XFERINFODATA, this);
  curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, error_);
  curl_easy_setopt(handle_, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(handle_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, this);
  if (method == Method::head) curl_easy_setopt(handle_, CURLOPT_NOBODY, 1L);
  if (from > 0) curl_easy_setopt(handle_, CURLOPT_RANGE, fmt::format("{}-", from).c_str());
}

Request::~Request() {
  curl_easy_cleanup(handle_);
  curl_slist_free_all(headers_);
}

size_t Request::on_header(char* bytes, size_t size, size_t count, void* self) {
  auto& reply = static_cast<Request*>(self)->reply_;
  const std::string_view line(bytes, size * count);
  reach().answered = true;
  if (line.starts_with("HTTP/")) {  // the previous reply was a proxy's, or "100 Continue"
    reply = {};
    if (const size_t space = line.find(' '); space != std::string_view::npos)
      reply.status = std::strtol(std::string(line.substr(space)).c_str(), nullptr, 10);
  } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    reply.headers[name] = trimmed_value(line.substr(colon + 1));
  }
  return size * count;
}

// Called about once a second while nothing arrives.
int Request::on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Reach& hub = reach();
  if (hub.answered) return 0;
  if (!hub.told && hub.seconds() >= kTellAfterSeconds) {
    const Request& request = *static_cast<Request*>(self);
    spdlog::info("{}waiting for {}", request.why_asked_,
                 request.url_.substr(0, request.url_.find('/', request.url_.find("://") + 3)));
    hub.told = true;
  }
  return hub.seconds() < kReachSeconds ? 0 : 1;
}

size_t Request::on_body(char* bytes, size_t size, size_t count, void* self) {
  auto& request = *static_cast<Request*>(self);
  const bool wanted = request.reply_.status == 200 || request.reply_.status == 206;
  if (wanted && request.sink_ && !request.sink_(request.reply_, {bytes, size * count})) return 0;
  return size * count;
}

std::string Request::location() const {
  const Url parsed(curl_url(), curl_url_cleanup);
  const std::string target = reply_.header("location");
  curl_url_set(parsed.get(), CURLUPART_URL, url_.c_str(), 0);
  if (curl_url_set(parsed.get(), CURLUPART_URL, target.c_str(), 0) != CURLUE_OK)
    throw HubError(fmt::format("{}: leads to '{}', which is not a URL", url_, target));
  std::string whole = part_of(parsed.get(), CURLUPART_URL, 0);
  if (url_.starts_with("https:") && !whole.starts_with("https:"))
    throw HubError(fmt::format("{}: leads from https to {}, which is not accepted", url_, origin_of(whole)));
  return whole;
}

std::string Request::why(CURLcode code) const {
  if (code == CURLE_ABORTED_BY_CALLBACK) return fmt::format("no answer within {:.0f} s", kReachSeconds);
  const std::string detail = error_[0] != '\0' ? error_ : curl_easy_strerror(code);
  if (code == CURLE_SSL_CACERT_BADFILE || code == CURLE_PEER_FAILED_VERIFICATION)
    return detail + " (Debian's package ca-certificates holds the certificates that are trusted)";
  return detail;
}

bool is_passing(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
      return true;
    default:
      return false;
  }
}

bool is_passing(long status) { return status == 408 || status == 429 || (status >= 500 && status <= 504); }

double seconds_to_wait(const Reply& reply, double otherwise) {
  const std::string text = reply.header("retry-after");
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && seconds >= 0) return seconds;
  const time_t date = text.empty() ? -1 : curl_getdate(text.c_str(), nullptr);
  if (date != -1) return std::max(0.0, std::difftime(date, std::time(nullptr)));
  // Reads "RateLimit: "resolvers";r=0;t=55": 55 seconds until requests are accepted again.
  const std::string limit = reply.header("ratelimit");
  if (const size_t at = limit.find(";t="); at != std::string::npos && limit.find("r=0;") != std::string::npos)
    return std::strtod(limit.c_str() + at + 3, nullptr);
  return otherwise;
}

void refuse(const Settings& settings, const Repo& repo, const std::string& file, const Reply& reply) {
  const std::string what = file.empty() ? repo.id : repo.id + ": " + file;
  const std::string code = reply.header("x-error-code"), page = settings.endpoint + "/" + repo.path();
  std::string why;
  if (code == "RevisionNotFound") {
    why = fmt::format("there is no revision '{}' ({}); {}/tree/main shows which there are", repo.revision,
                      reply.status, page);
  } else if (code == "EntryNotFound") {
    why = fmt::format("the file is not in the revision '{}' ({})", repo.revision, reply.status);
  } else if (code == "GatedRepo" || (reply.status == 403 && code.empty())) {
    why = fmt::format("access is not granted ({}): its conditions are accepted at {}; {}", reply.status, page,
                      about_token(settings));
  } else if (reply.status == 401 && !settings.token.empty() &&
             reply.header("x-error-message").starts_with("Invalid credentials")) {
    why = fmt::format("the hub does not know the token in {} (401)", settings.token_origin);
  } else if (reply.status == 401 || reply.status == 404) {
    why = missing(settings, repo, reply.status);
  } else if (reply.status == 429) {
    why = fmt::format("the hub refuses further requests (429) and asks to wait {:.0f} s{}",
                      seconds_to_wait(reply, 60),
                      settings.token.empty() ? "; with a token (HF_TOKEN) more are allowed" : "");
  } else if (reply.status >= 500) {
    why = fmt::format("{} has failed ({}): try again later", settings.endpoint, reply.status);
  } else {
    const std::string message = reply.header("x-error-message");
    why = fmt::format("the hub answers {}{}", reply.status, message.empty() ? "" : ": " + message);
  }
  throw HubError(fmt::format("{}: {}", what, why));
}

}  // namespace trl::cli::hub
