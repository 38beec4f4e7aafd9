#include "serve/server.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "serve/api/fields.h"
#include "serve/guard/origin.h"
#include "serve/routes.h"

namespace trl::serve {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTextThreads = 2;
constexpr size_t kNameBytes = 256;
constexpr double kLastAnswers = 1;  // seconds in which answers that are ready are still written
constexpr auto kLook = std::chrono::milliseconds(20);

int eventfd_or_fail() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) fail(Status::io, "eventfd: {}", std::strerror(errno));
  return fd;
}

template <class H, class T, class From>
std::unique_ptr<H> shared(T* (*share)(const From*, trl_error**) noexcept, const From* from) {
  ErrorHandle error;
  auto handle = std::make_unique<H>(share(from, error.out()));
  if (handle->get() == nullptr) check(trl_error_code(error.get()), error);
  return handle;
}

}  // namespace

Server::Server(const capi::ServeTable& table, trl_runtime* runtime, const trl_config* options)
    : table_(table),
      runtime_(runtime),
      settings_(options, nullptr),
      context_{.table = table,
               .runtime = runtime,
               .options = server_options(settings_),
               .texts = {},
               .models = {}},
      gate_(context_.options),
      wake_(eventfd_or_fail()) {}

Server::~Server() {
  end_threads();
  ::close(wake_);
}

void Server::check_stopped() const {
  const std::lock_guard lock(mutex_);
  if (state_ != State::stopped) fail(Status::invalid_argument, "server: it has started; stop it first");
}

void Server::add(const std::string& name, std::unique_ptr<ModelHandle> model,
                 std::unique_ptr<GeneratorHandle> generator, std::unique_ptr<TokenizerHandle> tokenizer,
                 const trl_config* options, bool adapts) {
  check_stopped();
  if (name.empty() || name.size() > kNameBytes)
    fail(Status::invalid_argument, "name: {} bytes; give 1 to {}", name.size(), kNameBytes);
  const Settings own(options, &settings_);
  // Lists of the server are its first model's.
  const auto listed = [&](const char* key) {
    std::vector<std::string> items = own.list(key);
    return context_.models.empty() || own.sets(key) ? items : std::vector<std::string>();
  };
  std::vector<std::string> names = listed("serve.model_names");
  const std::vector<std::string> modules = listed("serve.lora_modules");
  ModelOptions of_model = model_options(own);
  own.check_read(settings_);
  if (names.empty()) names.push_back(name);
  for (const auto& other : context_.models)
    for (const std::string& wanted : names)
      if (other->has(wanted))
        fail(Status::invalid_argument, "name: '{}' is another model's; choose another", wanted);
  context_.models.push_back(std::make_unique<ServedModel>(table_, std::move(names), std::move(of_model),
                                                          std::move(model), std::move(generator),
                                                          std::move(tokenizer), adapts));
  try {
    load_adapters(modules);
  } catch (...) {
    context_.models.pop_back();
    throw;
  }
}

void Server::add_model(const std::string& name, const trl_model* model, const trl_tokenizer* tokenizer,
                       const trl_config* options) {
  auto own_model = shared<ModelHandle>(table_.share_model, model);
  auto own_tokenizer = tokenizer == nullptr ? shared<TokenizerHandle>(table_.tokenizer_of_model, model)
                                            : shared<TokenizerHandle>(table_.share_tokenizer, tokenizer);
  ErrorHandle error;
  auto generator = std::make_unique<GeneratorHandle>();
  check(trl_generator_create(own_model->get(), own_tokenizer->get(), generator->out(), error.out()), error);
  add(name, std::move(own_model), std::move(generator), std::move(own_tokenizer), options, true);
}

void Server::add_generator(const std::string& name, const trl_generator* generator,
                           const trl_tokenizer* tokenizer, const trl_config* options) {
  auto own_tokenizer = shared<TokenizerHandle>(table_.share_tokenizer, tokenizer);
  auto own_generator = shared<GeneratorHandle>(table_.share_generator, generator);
  ErrorHandle error;
  auto model = std::make_unique<ModelHandle>(table_.model_of_generator(own_generator->get(), error.out()));
  if (model->get() == nullptr) check(trl_error_code(error.get()), error);
  add(name, std::move(model), std::move(own_generator), std::move(own_tokenizer), options, false);
}

void Server::add_trainer(const std::string& name, trl_trainer* trainer, const trl_config* options) {
  ErrorHandle error;
  ModelHandle model;
  check(trl_model_from_trainer(trainer, model.out(), error.out()), error);
  add_model(name, model.get(), nullptr, options);
}

void Server::start() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::stopped || stopping_) fail(Status::busy, "server: it runs already");
    if (context_.models.empty())
      fail(Status::invalid_argument, "server: it has no model; call trl_server_add_model first");
  }
  listener_ = std::make_unique<Listener>(
      context_.options, *this,
      ListenerCounts{context_.connections, context_.slow_readers, context_.held_bytes});
  try {
    listener_->open();
    gate_.listens_on(listener_->is_loopback() ? listener_->address() : std::string());
    size_t tensors = 0;
    for (const auto& model : context_.models) tensors = std::max(tensors, model->weights().most_bytes());
    gate_.takes_tensors(tensors);
    context_.draining = false;
    cancels_ = 0;
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof count);
    const auto begin = [this] { table_.own_thread(); };
    context_.texts.start(kTextThreads, begin);
    context_.forms.start(begin);
    for (size_t i = 0; i < context_.models.size(); ++i) context_.models[i]->worker().start(std::to_string(i));
    listener_->start(begin, wake_, [this] {
      ++cancels_;
      context_.draining = true;
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    });
  } catch (...) {
    end_threads();
    throw;
  }
  const std::lock_guard lock(mutex_);
  state_ = State::running;
  tell_where();
}

void Server::tell_where() const {
  const std::string models = context_.models.front()->name();
  context_.log(base::LogLevel::info, fmt::format("serving {} at http://{} ({})", models, listener_->address(),
                                                 gate_.has_keys() ? "with a key" : "no key"));
  if (listener_->is_loopback() || gate_.has_keys()) return;
  context_.log(
      base::LogLevel::warning,
      fmt::format(
          "serve.host: whoever reaches {} can use the models and replace their weights, since there is "
          "no serve.api_key",
          listener_->address()));
}

bool Server::idle() const {
  return std::ranges::all_of(context_.models, [](const auto& model) { return model->worker().idle(); });
}

// Ends all threads. Connections go last, so that answers that are ready are still written.
void Server::end_threads() {
  context_.forms.stop();
  for (const auto& model : context_.models) model->worker().stop();
  context_.texts.stop();
  std::unique_ptr<Listener> ended;
  {
    const std::lock_guard lock(mutex_);
    ended = std::move(listener_);
  }
  if (ended) ended->stop(kLastAnswers);
}

void Server::stop(double seconds) {
  std::unique_lock lock(mutex_);
  if (stopping_) fail(Status::busy, "server: another thread stops it");
  if (state_ != State::stopped) drain(lock, seconds);
}

void Server::drain(std::unique_lock<std::mutex>& lock, double seconds) {
  stopping_ = true;
  state_ = State::draining;
  lock.unlock();
  context_.draining = true;
  const int before = cancels_;
  const auto end = Clock::now() + time_of(seconds < 0 ? context_.options.drain_timeout : seconds);
  for (const auto& model : context_.models) model->worker().drain();
  while (!idle() && Clock::now() < end && cancels_ <= std::max(1, before)) std::this_thread::sleep_for(kLook);
  end_threads();
  lock.lock();
  state_ = State::stopped;
  stopping_ = false;
  changed_.notify_all();
}

// Whether trl_server_wait has to wait longer; a while later, if so.
bool Server::runs_on(Clock::time_point end) noexcept {
  std::unique_lock lock(mutex_);
  const auto over = [&] {
    return state_ == State::stopped || (cancels_ > 0 && !stopping_) || Clock::now() >= end ||
           std::ranges::any_of(context_.models, [](const auto& model) { return model->worker().failed(); });
  };
  if (over()) return false;
  changed_.wait_for(lock, kLook);
  return true;
}

bool Server::wait(double seconds) {
  struct Wait {
    Server& server;
    Clock::time_point end;
  } of{*this, seconds < 0 ? Clock::time_point::max() : Clock::now() + time_of(seconds)};
  const auto goes_on = [](void* any) -> int32_t {
    const Wait& self = *static_cast<Wait*>(any);
    return self.server.runs_on(self.end) ? 1 : 0;
  };
  for (;;) {
    ErrorHandle error;
    check(table_.wait(runtime_.get(), goes_on, &of, error.out()), error);
    std::unique_lock lock(mutex_);
    if (state_ != State::stopped && cancels_ > 0 && !stopping_) drain(lock, -1);
    if (state_ == State::stopped) return true;
    for (const auto& model : context_.models)
      if (const std::string why = model->worker().failure(); !why.empty())
        fail(Status::internal, "server: {}", why);
    if (Clock::now() >= of.end) return false;
  }
}

void Server::cancel() noexcept {
  const uint64_t one = 1;
  const int before = errno;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  errno = before;
}

std::string Server::describe() const {
  const std::lock_guard lock(mutex_);
  base::Json models = base::Json::array();
  for (const auto& model : context_.models) {
    const Counters counters = model->worker().counters();
    base::Json one = base::Json::object();
    one["name"] = model->name();
    one["state"] = model->worker().awake() ? "awake" : "asleep";
    one["weights_version"] = model->adapters().version() + model->weights().version();
    one["trained_version"] =
        counters.trained_version < 0 ? base::Json() : base::Json(counters.trained_version);
    one["adapters"] = base::Json::array();
    for (const auto& adapter : model->adapters().all())
      one["adapters"].push_back({{"name", adapter->name}, {"version", adapter->version}});
    one["waiting"] = counters.waiting;
    one["running"] = counters.running;
    one["requests"] = counters.requests;
    one["tokens"] = counters.generation_tokens;
    models.push_back(std::move(one));
  }
  constexpr const char* kStates[] = {"stopped", "running", "draining"};
  base::Json out = base::Json::object();
  out["state"] = kStates[static_cast<size_t>(state_)];
  out["address"] = listener_ ? base::Json(listener_->address()) : base::Json();
  out["port"] = listener_ ? base::Json(listener_->port()) : base::Json();
  out["connections"] = context_.connections.load();
  out["models"] = std::move(models);
  return json_text(out);
}

std::optional<Answer> Server::refuse(Request& head, std::optional<uint64_t> length) {
  if (std::optional<Answer> refused = gate_.look(head, length)) return refused;
  std::string allow;
  const Route& route = find_route(head.method, head.path, allow);
  try {
    if (route.claim != nullptr) route.claim(context_, head);
  } catch (const Refusal& refusal) {
    return answer_of(refusal);
  }
  return std::nullopt;
}

size_t Server::most_bytes(const Request& head) { return gate_.most_bytes(head); }

HeaderFields Server::fields_for(const Request& head) { return cors_fields(head, context_.options.origins); }

void Server::serve(std::shared_ptr<Exchange> exchange) {
  context_.texts.post([this, exchange = std::move(exchange)] {
    std::string allow;
    Answer (*refusing)(const Refusal&) = answer_of;
    try {
      const Route& route = find_route(exchange->request.method, exchange->request.path, allow);
      refusing = route.refuse;
      if (context_.draining && route.method == "POST") throw Refusal(503, "the server is stopping");
      route.handler(context_, exchange);
    } catch (...) {
      send_refusal(*exchange->reply, current_refusal(), refusing);
    }
  });
}

}  // namespace trl::serve
