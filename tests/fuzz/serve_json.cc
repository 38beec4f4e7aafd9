// Any text as the body of any route ("PATH\nBODY"): one answer with a status that is known, whose JSON says
// what it must, from a server with a fake library.
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/json/json.h"
#include "in_memory_file.h"
#include "serve/server.h"

namespace {

using namespace trl::serve;
using trl::base::Json;
using trl::fuzz::require;

class Answered final : public Reply {
 public:
  void note(std::string, std::string) override {}
  void send(Answer answer) override {
    const std::lock_guard lock(mutex_);
    require(!begun_ && !ended_);
    answer_ = std::move(answer);
    ended_ = true;
    changed_.notify_all();
  }
  void begin(Answer head) override {
    const std::lock_guard lock(mutex_);
    require(!begun_ && !ended_);
    begun_ = true;
    answer_ = std::move(head);
  }
  void add(std::string piece) override {
    const std::lock_guard lock(mutex_);
    require(begun_ && !ended_);
    answer_.body += piece;
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    require(begun_ && !ended_);
    ended_ = true;
    changed_.notify_all();
  }
  void give_up() noexcept override { require(false); }
  size_t waiting() const override { return 0; }
  bool gone() const override { return false; }
  void on_gone(std::function<void()>) override {}

  // Waits for the end of the answer.
  const Answer& wait() {
    std::unique_lock lock(mutex_);
    require(changed_.wait_for(lock, std::chrono::seconds(60), [this] { return ended_; }));
    return answer_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Answer answer_;
  bool begun_ = false, ended_ = false;
};

// Asks a server; it runs until the process ends.
class Asked {
 public:
  Asked() {
    trl_config* config = nullptr;
    require(trl_config_create(&config, nullptr) == TRL_OK);
    require(trl_config_set(config, "serve.enable_lora", "true", nullptr) == TRL_OK);
    require(trl_config_set(config, "serve.adapter_dir", "/proc/self/task", nullptr) == TRL_OK);
    server_ = std::make_unique<Server>(*trl_private_serve(trl::capi::kServeTable), nullptr, config);
    trl_config_destroy(config);
    server_->add_model("tiny", nullptr, nullptr, nullptr);
    server_->start();
  }
  Answer ask(std::string path, std::string body) {
    const auto exchange = std::make_shared<Exchange>();
    const size_t question = std::min(path.find('?'), path.size());
    exchange->request.method = body.empty() ? "GET" : "POST";
    exchange->request.query = path.substr(std::min(question + 1, path.size()));
    exchange->request.path = decode_url(path.substr(0, question), false);
    exchange->request.body = std::move(body);
    const auto reply = std::make_shared<Answered>();
    exchange->reply = reply;
    static_cast<Service&>(*server_).serve(exchange);
    return reply->wait();
  }

 private:
  std::unique_ptr<Server> server_;
};

void check_error(const Answer& answer) {
  const Json body = trl::base::parse_json(answer.body, "answer");
  if (answer.status == 422) {
    require(body.at("detail").at(0).at("msg").is_string());
    return;
  }
  const Json& error = body.at("error");
  require(error.at("code") == answer.status && !error.at("message").get<std::string>().empty());
  require(error.at("type").is_string() && (error.at("param").is_null() || error.at("param").is_string()));
}

void check_events(std::string_view text) {
  bool done = false;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    require(!done && text.starts_with("data: ") && end != text.npos);
    const std::string_view event = text.substr(6, end - 6);
    done = event == "[DONE]";
    if (!done) trl::base::parse_json(event, "event");
    text.remove_prefix(end + 2);
  }
  require(done);
}

void check(const Answer& answer) {
  if (answer.status != 200) {
    static constexpr int kKnown[] = {400, 403, 404, 405, 409, 422, 429, 501, 503};
    require(std::find(std::begin(kKnown), std::end(kKnown), answer.status) != std::end(kKnown));
    return check_error(answer);
  }
  if (answer.type.starts_with("text/event-stream")) return check_events(answer.body);
  if (answer.type == "application/json" && !answer.body.empty()) trl::base::parse_json(answer.body, "answer");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Asked* const server = new Asked;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(text.find('\n'), text.size());
  const std::string path = text.substr(0, line);
  check(server->ask(path, text.substr(std::min(line + 1, text.size()))));
  if (path.starts_with("/sleep")) check(server->ask("/wake_up", " "));
  return 0;
}
