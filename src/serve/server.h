// A server: its configuration, models, connections and threads.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/context.h"
#include "serve/guard/gate.h"
#include "serve/http/listener.h"
#include "serve/options.h"

namespace trl::serve {

class Server final : public Service {
 public:
  // runtime: or null; taken over.
  Server(const capi::ServeTable& table, trl_runtime* runtime, const trl_config* options);
  ~Server() override;

  void add_model(const std::string& name, const trl_model* model, const trl_tokenizer* tokenizer,
                 const trl_config* options);
  void add_generator(const std::string& name, const trl_generator* generator, const trl_tokenizer* tokenizer,
                     const trl_config* options);
  void add_trainer(const std::string& name, trl_trainer* trainer, const trl_config* options);
  void start();
  void stop(double seconds);  // below 0: serve.drain_timeout
  // Returns whether it has stopped. Throws the error of a thread that failed.
  bool wait(double seconds);
  void cancel() noexcept;  // signal-safe
  std::string describe() const;
  // model: empty: the first. path: empty: the adapter is removed.
  void set_adapter(const std::string& model, const std::string& name, const std::string& path);
  void sleep(const std::string& model, int64_t level, const std::string& mode);
  void wake_up(const std::string& model, const std::string& tags);
  trl_runtime* runtime() const { return runtime_.get(); }

 private:
  std::optional<Answer> refuse(Request& head, std::optional<uint64_t> length) override;
  size_t most_bytes(const Request& head) override;
  void serve(std::shared_ptr<Exchange> exchange) override;
  HeaderFields fields_for(const Request& head) override;
  void add(const std::string& name, std::unique_ptr<ModelHandle> model,
           std::unique_ptr<GeneratorHandle> generator, std::unique_ptr<TokenizerHandle> tokenizer,
           const trl_config* options, bool adapts);
  void load_adapters(const std::vector<std::string>& modules);
  ServedModel& named(const std::string& model) const;
  bool runs_on(std::chrono::steady_clock::time_point end) noexcept;
  // Lets requests end, and then ends the threads. lock: of the state; it is held again afterwards.
  void drain(std::unique_lock<std::mutex>& lock, double seconds);
  void check_stopped() const;
  bool idle() const;
  void end_threads();
  void tell_where() const;

  const capi::ServeTable& table_;
  const RuntimeHandle runtime_;
  const Settings settings_;
  Context context_;
  Gate gate_;
  const int wake_;  // an eventfd: cancel() writes to it
  std::unique_ptr<Listener> listener_;
  mutable std::mutex mutex_;  // of the state
  std::condition_variable changed_;
  enum class State : uint8_t { stopped, running, draining } state_ = State::stopped;
  bool stopping_ = false;        // by a thread that is inside stop()
  std::atomic<int> cancels_{0};  // how often it was asked to stop
};

}  // namespace trl::serve
