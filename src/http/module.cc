#include "http/module.h"

#include <curl/curl.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

namespace trl::http {

namespace {

constexpr int kTurnMilliseconds = 50;  // between two questions whether the request goes on
// Probes find a peer that is gone while its answer is waited for: after this many seconds, and so often.
constexpr long kProbeAfterSeconds = 30, kProbeEachSeconds = 10;

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const noexcept {
    kFree(object);
  }
};

bool initialize() {
  static std::mutex mutex;
  static bool done = false;
  const std::lock_guard lock(mutex);
  if (!done) done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return done;
}

constexpr long kLongBody = 1 << 20;  // bytes; also of its pieces

struct Body {
  const Reply& reply;
  size_t left;  // bytes that are still wanted
  bool too_large = false;
};

// Another size than the one that was given ends the transfer.
size_t on_body(char* bytes, size_t size, size_t count, void* to) {
  Body& body = *static_cast<Body*>(to);
  body.too_large = size * count > body.left;
  if (body.too_large) return 0;
  body.left -= size * count;
  body.reply.put(body.reply.to, bytes, size * count);
  return size * count;
}

Outcome outcome_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return Outcome::answered;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_OPERATION_TIMEDOUT:  // only the connection has a limit
      return Outcome::unreached;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
      return Outcome::unusable;
    default:
      return Outcome::broken;
  }
}

// Returns the end of the one transfer; goes_on: false ends it before.
Outcome run(CURLM* multi, const Reply& reply, CURLcode* code) {
  int running = 1;
  while (running != 0) {
    if (!reply.goes_on(reply.to)) return Outcome::stopped;
    if (curl_multi_perform(multi, &running) != CURLM_OK) return Outcome::unusable;
    if (running != 0 && curl_multi_poll(multi, nullptr, 0, kTurnMilliseconds, nullptr) != CURLM_OK)
      return Outcome::unusable;
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left))
    if (message->msg == CURLMSG_DONE) *code = message->data.result;
  return outcome_of(*code);
}

// One request with all that libcurl needs for it.
struct Transfer {
  Transfer(const Request& asked, const Reply& reply) : request(asked), body{reply, asked.most_bytes} {}
  bool has_handles() const { return easy && multi; }
  void add_header(const char* text);
  void add_headers();
  template <class Value>
  void set(CURLoption option, Value value) {
    good = good && curl_easy_setopt(easy.get(), option, value) == CURLE_OK;
  }
  void set_connection();
  void set_messages();
  void set_body();

  const Request& request;
  const std::unique_ptr<CURL, Free<curl_easy_cleanup>> easy{curl_easy_init()};
  const std::unique_ptr<CURLM, Free<curl_multi_cleanup>> multi{curl_multi_init()};
  std::unique_ptr<curl_slist, Free<curl_slist_free_all>> headers;
  char why[CURL_ERROR_SIZE] = {};
  Body body;
  bool good = true;  // false: libcurl has refused something, and the rest is left out
};

void Transfer::add_header(const char* text) {
  if (!good) return;
  curl_slist* const all = curl_slist_append(headers.get(), text);
  good = all != nullptr;
  if (good && !headers) headers.reset(all);
}

void Transfer::add_headers() {
  add_header("Expect:");  // the body is sent at once
  for (size_t i = 0; i < request.header_count; ++i) add_header(request.headers[i]);
}

void Transfer::set_connection() {
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(why));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROXY, "");
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_milliseconds));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_TCP_KEEPIDLE, kProbeAfterSeconds);
  set(CURLOPT_TCP_KEEPINTVL, kProbeEachSeconds);
  set(CURLOPT_USERAGENT, "libtrl");
}

// Sets what is sent, and where the answer goes.
void Transfer::set_messages() {
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, &body);
  set(CURLOPT_URL, request.url);
  if (std::strcmp(request.method, "POST") == 0) set_body();
}

void Transfer::set_body() {
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body_size));
  set(CURLOPT_POSTFIELDS, request.body);
  if (request.body_size > static_cast<size_t>(kLongBody)) set(CURLOPT_UPLOAD_BUFFERSIZE, kLongBody);
}

Outcome failed(const Reply& reply, Outcome outcome, const char* why) {
  reply.fail(reply.to, why, std::strlen(why));
  return outcome;
}

int32_t status_of(CURL* easy) {
  long number = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &number);
  return static_cast<int32_t>(number);
}

Outcome exchange(const Request* request, const Reply* reply, int32_t* status) {
  if (!initialize())
    return failed(*reply, Outcome::unusable, "libcurl cannot be used: curl_global_init failed");
  Transfer transfer(*request, *reply);
  if (!transfer.has_handles())
    return failed(*reply, Outcome::unusable, "libcurl cannot be used: there is no memory");
  transfer.add_headers();
  transfer.set_connection();
  transfer.set_messages();
  char* const why = transfer.why;
  CURLM* const multi = transfer.multi.get();
  CURL* const easy = transfer.easy.get();
  if (!transfer.good || curl_multi_add_handle(multi, easy) != CURLM_OK)
    return failed(*reply, Outcome::unusable, why[0] != '\0' ? why : "libcurl refuses the request");
  CURLcode code = CURLE_RECV_ERROR;
  const Outcome outcome = run(multi, *reply, &code);
  *status = status_of(easy);
  curl_multi_remove_handle(multi, easy);
  if (transfer.body.too_large) {
    std::snprintf(why, sizeof transfer.why, "the answer has more than %zu bytes", request->most_bytes);
    return failed(*reply, Outcome::too_large, why);
  }
  if (outcome == Outcome::answered) return outcome;
  return failed(*reply, outcome, why[0] != '\0' ? why : curl_easy_strerror(code));
}

constexpr Module kModule = {kModuleVersion, exchange};

}  // namespace

}  // namespace trl::http

extern "C" __attribute__((visibility("default"))) const trl::http::Module* trl_http_module() {
  return &trl::http::kModule;
}
