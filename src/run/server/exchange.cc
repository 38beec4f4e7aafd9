#include "run/server/exchange.h"

#include <chrono>
#include <cmath>
#include <exception>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text/number.h"
#include "base/text/utf8.h"

namespace trl::run {

namespace {

using http::Outcome;

constexpr int32_t kConnectMilliseconds = 10'000;
constexpr size_t kShown = 2000;  // bytes of an answer in a message

bool passes(int32_t status) { return status == 500 || status == 502 || status == 503; }

// Collects the answer of a request. The module calls through C, so that nothing may be thrown.
struct Received {
  std::string body, why;
  std::exception_ptr failure;
  const std::function<bool()>& goes_on;  // or none

  template <class Call>
  bool guarded(const Call& call) noexcept {
    try {
      call();
      return true;
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
      return false;
    }
  }
};

}  // namespace

void wait_seconds(double seconds) {
  constexpr auto kTurn = std::chrono::milliseconds(20);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (base::poll(); std::chrono::steady_clock::now() < end; base::poll()) std::this_thread::sleep_for(kTurn);
}

Exchange::Attempt Exchange::attempt(const char* method, std::string_view path, const Body& body,
                                    const std::function<bool()>& goes_on) const {
  const std::string url = url_ + std::string(path), authorization = "Authorization: Bearer " + key_,
                    type = "Content-Type: " + std::string(body.type);
  std::vector<const char*> headers = {"Accept: application/json"};
  if (!body.bytes.empty()) headers.push_back(type.c_str());
  if (!key_.empty()) headers.push_back(authorization.c_str());
  Received received{.body = {}, .why = {}, .failure = nullptr, .goes_on = goes_on};
  const http::Request request{method,
                              url.c_str(),
                              headers.data(),
                              headers.size(),
                              body.bytes.data(),
                              body.bytes.size(),
                              kConnectMilliseconds,
                              most_bytes_};
  const http::Reply reply{&received,
                          [](void* to, const char* bytes, size_t size) {
                            auto& own = *static_cast<Received*>(to);
                            own.guarded([&] { own.body.append(bytes, size); });
                          },
                          [](void* to) {
                            auto& own = *static_cast<Received*>(to);
                            return own.failure == nullptr && own.guarded([] { base::poll(); }) &&
                                   (!own.goes_on || own.goes_on());
                          },
                          [](void* to, const char* text, size_t size) {
                            auto& own = *static_cast<Received*>(to);
                            own.guarded([&] { own.why.assign(text, size); });
                          }};
  int32_t status = 0;
  const Outcome outcome = module_.exchange(&request, &reply, &status);
  if (received.failure != nullptr) std::rethrow_exception(received.failure);
  return {outcome, {status, std::move(received.body)}, std::move(received.why)};
}

Answer Exchange::repeat(const char* method, std::string_view path, const Body& body, bool repeatable) {
  int statuses = 0;
  for (int failed = 0;; ++failed) {
    Attempt now = attempt(method, path, body);
    const bool answered = now.outcome == Outcome::answered;
    if (answered && !passes(now.answer.status)) return std::move(now.answer);
    statuses += answered ? 1 : 0;
    const bool again = repeatable || now.outcome == Outcome::unreached;
    const bool in_vain = now.outcome == Outcome::unusable || now.outcome == Outcome::too_large;
    if (!again || in_vain || failed >= retries_.all || statuses > retries_.statuses) {
      if (answered) return std::move(now.answer);
      fail_server(path, fmt::format("{} ({})", now.why, base::quantity(failed + 1, "attempt")));
    }
    const double pause = failed == 0 ? 0 : retries_.factor * std::pow(2.0, failed);
    log_.info("server", "{}{}: {}; it is asked again in {:.0f} s", url_, path,
              answered ? fmt::format("status {}", now.answer.status) : now.why, pause);
    wait_seconds(pause);
  }
}

Answer Exchange::get(std::string_view path) { return repeat("GET", path, {}, true); }

Answer Exchange::post(std::string_view path, const base::Json& body, bool repeatable) {
  const std::string text = body.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  return repeat("POST", path, {text}, repeatable);
}

Answer Exchange::post_while(std::string_view path, const base::Json& body,
                            const std::function<bool()>& goes_on) {
  const std::string text = body.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  Attempt now = attempt("POST", path, {text}, goes_on);
  if (now.outcome == Outcome::stopped) fail_server(path, "it did not answer in time");
  if (now.outcome != Outcome::answered) fail_server(path, now.why);
  return std::move(now.answer);
}

Answer Exchange::post_bytes(std::string_view path, std::string_view body, std::string_view type,
                            bool repeatable) {
  return repeat("POST", path, {body, type}, repeatable);
}

int32_t Exchange::status_of(std::string_view path, std::string* why, const std::function<bool()>& goes_on) {
  Attempt now = attempt("GET", path, {}, goes_on);
  *why = std::move(now.why);
  return now.outcome == Outcome::answered ? now.answer.status : 0;
}

base::Json Exchange::json_of(std::string_view path, const Answer& answer) const {
  if (answer.status != 200) refuse(path, answer);
  try {
    return base::parse_python_json(answer.body, "the answer");
  } catch (const Error& error) {
    if (error.status() != Status::format) throw;
    fail_server(path, error.message());
  }
}

base::Json Exchange::get_json(std::string_view path) { return json_of(path, get(path)); }

base::Json Exchange::post_json(std::string_view path, const base::Json& body, bool repeatable) {
  return json_of(path, post(path, body, repeatable));
}

std::string Exchange::shown(const Answer& answer) { return base::one_line(answer.body.substr(0, kShown)); }

void Exchange::refuse(std::string_view path, const Answer& answer) const {
  fail_server(path, fmt::format("Request failed: {}, {}", answer.status, shown(answer)));
}

void Exchange::fail_server(std::string_view path, std::string_view why) const {
  throw Error(Status::io, fmt::format("{}: {}{}: {}", kServerKey, url_, path, why), std::string(kServerKey));
}

}  // namespace trl::run
