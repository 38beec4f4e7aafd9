#include "serve/http/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/threads/thread_pool.h"
#include "serve/http/connection.h"

namespace trl::serve {

namespace {

constexpr int kBacklog = 1024;
constexpr auto kLook = std::chrono::milliseconds(2);
constexpr auto kAfterFailure = std::chrono::milliseconds(100);  // no descriptor, no memory: accept again then

net::ip::address address_of(const std::string& host) {
  beast::error_code error;
  const net::ip::address literal = net::ip::make_address(host, error);
  if (!error) return literal;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0 || found == nullptr) fail(Status::io, "serve.host: {}: {}", host, ::gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  tcp::endpoint endpoint;
  std::memcpy(endpoint.data(), found->ai_addr, found->ai_addrlen);
  return endpoint.address();
}

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

}  // namespace

struct Listener::Core {
  enum class Wanted : uint8_t { run, end_when_done, end };

  explicit Core(std::shared_ptr<Shared> all)
      : shared(std::move(all)),
        acceptor(shared->loop.io()),
        again(shared->loop.io()),
        wake(shared->loop.io()) {}

  void accept() {
    if (accepting || !acceptor.is_open()) return;
    if (connections.size() >= shared->options.max_connections) return;
    acceptor.async_accept([this](beast::error_code error, tcp::socket socket) {
      accepting = false;
      if (error == net::error::operation_aborted || !acceptor.is_open()) return;
      if (error) return accept_later();
      auto connection = std::make_shared<Connection>(std::move(socket), shared);
      connections.insert(connection);
      connection->start();
      accept();
    });
    accepting = true;
  }

  void accept_later() {
    again.expires_after(kAfterFailure);
    again.async_wait([this](beast::error_code error) {
      if (!error) accept();
    });
  }

  void wait_for_wake() {
    if (wakes || ended) return;
    wake.async_wait(net::posix::stream_descriptor::wait_read, [this](beast::error_code error) {
      wakes = false;
      if (error) return;
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake.native_handle(), &count, sizeof count);
      on_wake();
      wait_for_wake();
    });
    wakes = true;
  }

  void wait_for_bell() {
    if (listens || ended) return;
    shared->bell.descriptor().async_wait(net::posix::stream_descriptor::wait_read,
                                         [this](beast::error_code error) {
                                           listens = false;
                                           if (error) return;
                                           shared->bell.hush();
                                           on_bell();
                                           wait_for_bell();
                                         });
    listens = true;
  }

  void on_bell() {
    for (const auto& connection : connections) connection->look();
    std::erase_if(connections, [](const auto& connection) { return connection->is_closed(); });
    if (wanted >= Wanted::end_when_done) close_when_done();
    if (wanted == Wanted::end) return close();
    accept();
  }

  void close_when_done() {
    beast::error_code ignored;
    acceptor.close(ignored);
    for (const auto& connection : connections) connection->close_when_done();
  }

  void close() {
    beast::error_code ignored;
    ended = true;
    acceptor.close(ignored);
    again.cancel();
    if (wake.is_open()) {
      wake.cancel();
      wake.release();
    }
    shared->bell.descriptor().cancel(ignored);  // it stays open: late answers ring it
    for (const auto& connection : connections) connection->close();
  }

  // Waits for all that it has to wait for; after a handler that had no memory, something may not be.
  void wait_for_all() {
    wait_for_bell();
    wait_for_wake();
    accept();
  }

  // Without memory for it, a handler of the listener itself is repeated.
  void run() noexcept {
    for (;;) {
      try {
        wait_for_all();
        shared->loop.io().run();
        return;
      } catch (...) {
        accepting = false;  // it may have been lost
        std::this_thread::sleep_for(kLook);
      }
    }
  }

  void want(Wanted what) noexcept {
    wanted = what;
    shared->bell.ring();
  }

  const std::shared_ptr<Shared> shared;
  tcp::acceptor acceptor;
  net::steady_timer again;
  net::posix::stream_descriptor wake;
  std::function<void()> on_wake;
  std::set<std::shared_ptr<Connection>> connections;
  tcp::endpoint endpoint;
  std::thread thread;
  std::atomic<Wanted> wanted{Wanted::run};
  bool accepting = false, wakes = false, listens = false, ended = false;
};

Listener::Listener(const ServerOptions& options, Service& service, ListenerCounts counts)
    : core_(std::make_shared<Core>(std::make_shared<Shared>(options, service, counts))) {}

Listener::~Listener() { stop(0); }

void Listener::open() {
  Core& core = *core_;
  const ServerOptions& options = core.shared->options;
  const tcp::endpoint wanted(address_of(options.host), static_cast<uint16_t>(options.port));
  beast::error_code error;
  const auto need = [&](const char* what) {
    if (!error) return;
    beast::error_code ignored;
    core.acceptor.close(ignored);
    fail(Status::io, "{}: cannot {}: {}; choose another serve.host or serve.port", text_of(wanted), what,
         error.message());
  };
  core.acceptor.open(wanted.protocol(), error);
  need("open a socket");
  core.acceptor.set_option(net::socket_base::reuse_address(true), error);
  core.acceptor.bind(wanted, error);
  need("bind");
  core.acceptor.listen(kBacklog, error);
  need("listen");
  core.endpoint = core.acceptor.local_endpoint(error);
  need("listen");
}

void Listener::start(const std::function<void()>& begin, int wake_fd, std::function<void()> on_wake) {
  Core& core = *core_;
  core.on_wake = std::move(on_wake);
  core.wake.assign(wake_fd);
  core.thread = base::quiet_thread("trl-serve-io", [&core, begin] {
    begin();
    core.run();
  });
}

void Listener::stop(double seconds) {
  Core& core = *core_;
  if (core.thread.joinable()) {
    core.want(Core::Wanted::end_when_done);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (core.shared->counts.connections > 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(kLook);
    core.want(Core::Wanted::end);
    core.thread.join();
  } else {
    core.close();
  }
  core.shared->loop.close();
  core.shared->loop.io().restart();
  core.shared->loop.io().poll();  // what was posted meanwhile
}

std::string Listener::address() const { return text_of(core_->endpoint); }
int Listener::port() const { return core_->endpoint.port(); }
bool Listener::is_loopback() const { return core_->endpoint.address().is_loopback(); }

}  // namespace trl::serve
