// A server of models over HTTP, for C++11 and later: trl/serve.h as trl/trl.hpp has trl.h. Apache-2.0.
//
// A program that includes it links libtrl_serve.so, too (trl::serve, or pkg-config's trl_serve).
#ifndef TRL_SERVE_HPP
#define TRL_SERVE_HPP

#include <cstddef>
#include <cstdint>
#include <string>

#include "serve.h"
#include "trl.hpp"

namespace trl {
inline namespace cpp {

// Serves models on threads of its own. The destructor stops it without time for the requests that run; stop()
// gives them some. Models, generators, trainers, tokenizers and the runtime may be destroyed before it.
class Server : public detail::Handle<trl_server, trl_server_destroy> {
 public:
  using Handle::Handle;
  explicit Server(const Options& options = Options(), const Runtime* runtime = nullptr) {
    detail::call(trl_server_create, detail::raw(runtime), options.get(), receive());
  }

  // With the model's own tokenizer, or another one.
  void add_model(const std::string& name, const Model& model, const Options& options = Options(),
                 const Tokenizer* tokenizer = nullptr) {
    detail::call(trl_server_add_model, get(), detail::terminated(name), model.get(), detail::raw(tokenizer),
                 options.get());
  }
  // From start() to the end of stop() the generator is the server's.
  void add_generator(const std::string& name, const Generator& generator, const Tokenizer& tokenizer,
                     const Options& options = Options()) {
    detail::call(trl_server_add_generator, get(), detail::terminated(name), generator.get(), tokenizer.get(),
                 options.get());
  }
  // The model of a trainer: requests are answered with what it trains, with serve_share while it trains.
  void add_trainer(const std::string& name, const Trainer& trainer, const Options& options = Options()) {
    detail::call(trl_server_add_trainer, get(), detail::terminated(name), trainer.get(), options.get());
  }

  void start() { detail::call(trl_server_start, get()); }
  // Gives requests this many seconds to end; below 0: serve.drain_timeout.
  void stop(double seconds = -1) { detail::call(trl_server_stop, get(), seconds); }
  // Waits until it has stopped, or for this many seconds (below 0: any time); false: it still runs. Throws
  // the error of a server thread that failed. Delivers log lines while it waits.
  bool wait(double seconds = -1) { return detail::call(trl_server_wait, get(), seconds) != TRL_LATER; }
  // Asks it to stop, and returns at once; a second time: without time for requests. From any thread, and from
  // a signal handler.
  void cancel() const noexcept { trl_server_cancel(get()); }
  // Describes it as JSON: state, address, port, and the models.
  std::string describe() const { return detail::ask(trl_server_describe, get()); }

  // Gives a model ("": the first one) an adapter that requests name, or a new version of one; nullptr for the
  // path removes it. Requests that run keep the version that they began with.
  void set_adapter(const std::string& name, const std::string& path,
                   const std::string& model = std::string()) {
    detail::call(trl_server_set_adapter, get(), given(model), detail::terminated(name),
                 detail::terminated(path));
  }
  void set_adapter(const std::string& name, std::nullptr_t, const std::string& model = std::string()) {
    detail::call(trl_server_set_adapter, get(), given(model), detail::terminated(name), nullptr);
  }
  // Puts a model to sleep ("": the first one): requests are refused until wake_up(). mode: "abort"
  // ends running requests, "wait" lets them finish, "keep" holds them; "": "abort".
  void sleep(const std::string& model = std::string(), std::int32_t level = 1,
             const std::string& mode = std::string()) {
    detail::call(trl_server_sleep, get(), given(model), level, given(mode));
  }
  // tags: what is asked for again, "weights" or "kv_cache"; "": all.
  void wake_up(const std::string& model = std::string(), const std::string& tags = std::string()) {
    detail::call(trl_server_wake_up, get(), given(model), given(tags));
  }

 private:
  // NULL for a text that was left out.
  static const char* given(const std::string& text) {
    return text.empty() ? nullptr : detail::terminated(text);
  }
};

}  // namespace cpp
}  // namespace trl

#endif  // TRL_SERVE_HPP
