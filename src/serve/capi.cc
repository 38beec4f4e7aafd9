// The functions of trl/serve.h.
#include <memory>
#include <mutex>
#include <new>
#include <set>

#include "base/error.h"
#include "base/text/utf8.h"
#include "capi/serve_table.h"
#include "serve/server.h"
#include "trl/serve.h"

struct trl_server {
  trl_server(const trl::capi::ServeTable& table, trl_runtime* runtime, const trl_config* options)
      : server(table, runtime, options) {}
  trl::serve::Server server;
  std::mutex mutex;
  std::map<std::thread::id, std::string> described;  // a text for each thread
};

namespace trl::serve {
namespace {

const capi::ServeTable* table() noexcept { return trl_private_serve(capi::kServeTable); }

// Returns the status of the exception in flight; *error, if wanted, receives the message.
trl_status report(trl_error** error) noexcept {
  const capi::ServeTable* const made_by = table();
  const auto tell = [&](Status status, const char* message, const char* key) {
    const auto code = static_cast<trl_status>(status);
    return made_by == nullptr ? code : made_by->make_error(code, key, message, error);
  };
  try {
    throw;
  } catch (const Error& e) {
    return tell(e.status(), e.message().c_str(), e.key().c_str());
  } catch (const std::bad_alloc&) {
    return tell(Status::out_of_memory, "out of memory", "");
  } catch (const std::exception& e) {
    return tell(Status::internal, e.what(), "");
  } catch (...) {
    return tell(Status::internal, "unexpected", "");
  }
}

template <class Body>
trl_status guard(trl_error** error, Body&& body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    const capi::ServeTable* const shared = table();
    if (shared == nullptr) fail(Status::unsupported, "libtrl_serve.so: libtrl.so is of another version");
    if (shared->usable() == 0)
      fail(Status::busy,
           "forked: the library was in use before this process was forked; start it with exec instead");
    if constexpr (std::is_void_v<decltype(body(*shared))>) {
      body(*shared);
      return TRL_OK;
    } else {
      return body(*shared);
    }
  } catch (...) {
    return report(error);
  }
}

void need(const void* pointer, const char* name) {
  if (pointer == nullptr) fail(Status::invalid_argument, "{} is NULL", name);
}

// The servers that exist: any other pointer is refused, and never followed.
class LiveServers {
 public:
  void add(trl_server* server) {
    const std::lock_guard lock(mutex_);
    servers_.insert(server);
  }
  bool remove(trl_server* server) noexcept {
    const std::lock_guard lock(mutex_);
    return servers_.erase(server) != 0;
  }
  bool has(trl_server* server) noexcept {
    const std::lock_guard lock(mutex_);
    return servers_.contains(server);
  }

 private:
  std::mutex mutex_;
  std::set<trl_server*> servers_;
};

LiveServers& live_servers() {
  static auto* const servers = new LiveServers;  // never destroyed: calls may come as the process ends
  return *servers;
}

void need_server(trl_server* server) {
  need(server, "server");
  if (!live_servers().has(server))
    fail(Status::invalid_argument,
         "server: a trl_server is required, got something else or one already destroyed");
}

std::string text(const char* value, const char* name) {
  need(value, name);
  const size_t bad = base::find_invalid_utf8(value);
  if (bad != base::kValid) fail(Status::invalid_argument, "{} is not UTF-8: byte {} is invalid", name, bad);
  return value;
}

std::string text_or_none(const char* value, const char* name) {
  return value == nullptr ? std::string() : text(value, name);
}

// Gives the host the lines that wait, when a call of its ends.
class Delivery {
 public:
  Delivery(const capi::ServeTable& shared, const trl_server& server)
      : table_(shared), runtime_(server.server.runtime()) {}
  ~Delivery() { table_.deliver_log(runtime_); }
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

 private:
  const capi::ServeTable& table_;
  trl_runtime* const runtime_;
};

}  // namespace
}  // namespace trl::serve

using namespace trl::serve;

trl_status trl_server_create(trl_runtime* runtime, const trl_config* options, trl_server** out_server,
                             trl_error** error) noexcept {
  if (out_server != nullptr) *out_server = nullptr;
  return guard(error, [&](const trl::capi::ServeTable& shared) {
    need(out_server, "out_server");
    trl_runtime* own = nullptr;
    if (runtime != nullptr) {
      ErrorHandle why;
      own = shared.share_runtime(runtime, why.out());
      if (own == nullptr) check(trl_error_code(why.get()), why);
    }
    auto server = std::make_unique<trl_server>(shared, own, options);
    live_servers().add(server.get());
    *out_server = server.release();
  });
}

trl_status trl_server_add_model(trl_server* server, const char* name, trl_model* model,
                                trl_tokenizer* tokenizer, const trl_config* options,
                                trl_error** error) noexcept {
  return guard(error, [&](const trl::capi::ServeTable& shared) {
    need_server(server);
    const Delivery delivery(shared, *server);
    server->server.add_model(text(name, "name"), model, tokenizer, options);
  });
}

trl_status trl_server_add_generator(trl_server* server, const char* name, trl_generator* generator,
                                    trl_tokenizer* tokenizer, const trl_config* options,
                                    trl_error** error) noexcept {
  return guard(error, [&](const trl::capi::ServeTable& shared) {
    need_server(server);
    const Delivery delivery(shared, *server);
    server->server.add_generator(text(name, "name"), generator, tokenizer, options);
  });
}

trl_status trl_server_add_trainer(trl_server* server, const char* name, trl_trainer* trainer,
                                  const trl_config* options, trl_error** error) noexcept {
  return guard(error, [&](const trl::capi::ServeTable& shared) {
    need(server, "server");
    const Delivery delivery(shared, *server);
    server->server.add_trainer(text(name, "name"), trainer, options);
  });
}

trl_status trl_server_start(trl_server* server, trl_error** error) noexcept {
  return guard(error, [&](const trl::capi::ServeTable& shared) {
    need_server(server);
    const Delivery delivery(shared, *server);
    server->server.start();
  });
}

trl_status trl_server_stop(trl_server* server, double seconds, trl_error** error) noexcept {
  return guard(error, [&](const trl::capi::ServeTable& shared) {
    need_server(server);
    const Delivery delivery(shared, *server);
    server->server.stop(seconds);
  });
}

trl_status trl_server_wait(trl_server* server, double seconds, trl_error** error) noexcept {
  return guard(error, [&](const trl::capi::ServeTable& shared) {
    need_server(server);
    const Delivery delivery(shared, *server);
    return static_cast<trl_status>(server->server.wait(seconds) ? TRL_OK : TRL_LATER);
  });
}

void trl_server_cancel(trl_server* server) noexcept {
  if (server != nullptr && live_servers().has(server)) server->server.cancel();
}

trl_status trl_server_describe(trl_server* server, const char** out_json, trl_error** error) noexcept {
  if (out_json != nullptr) *out_json = nullptr;
  return guard(error, [&](const trl::capi::ServeTable&) {
    need_server(server);
    need(out_json, "out_json");
    std::string json = server->server.describe();
    const std::lock_guard lock(server->mutex);
    *out_json = (server->described[std::this_thread::get_id()] = std::move(json)).c_str();
  });
}

trl_status trl_server_set_adapter(trl_server* server, const char* model, const char* name, const char* path,
                                  trl_error** error) noexcept {
  return guard(error, [&](const trl::capi::ServeTable& shared) {
    need_server(server);
    const Delivery delivery(shared, *server);
    if (path != nullptr && *path == '\0') trl::fail(trl::Status::invalid_argument, "path is empty");
    server->server.set_adapter(text_or_none(model, "model"), text(name, "name"), text_or_none(path, "path"));
  });
}

trl_status trl_server_sleep(trl_server* server, const char* model, int32_t level, const char* mode,
                            trl_error** error) noexcept {
  return guard(error, [&](const trl::capi::ServeTable&) {
    need_server(server);
    server->server.sleep(text_or_none(model, "model"), level, mode == nullptr ? "abort" : text(mode, "mode"));
  });
}

trl_status trl_server_wake_up(trl_server* server, const char* model, const char* tags,
                              trl_error** error) noexcept {
  return guard(error, [&](const trl::capi::ServeTable&) {
    need_server(server);
    server->server.wake_up(text_or_none(model, "model"), text_or_none(tags, "tags"));
  });
}

void trl_server_destroy(trl_server* server) noexcept {
  if (server == nullptr) return;
  const trl::capi::ServeTable* const shared = table();
  if (shared == nullptr || shared->usable() == 0) return;  // a forked child has none of its threads
  if (live_servers().remove(server)) delete server;
}
