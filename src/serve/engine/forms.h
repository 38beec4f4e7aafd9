// The thread that compiles the forms which requests keep texts to, so that neither the models nor other
// requests wait for it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "capi/serve_table.h"
#include "serve/engine/worker.h"

namespace trl::serve {

class Forms {
 public:
  // table: outlives this.
  explicit Forms(const capi::ServeTable& table) : table_(table) {}
  void start(std::function<void()> begin);  // begin: called first on the thread
  void stop();                              // jobs that wait are not touched any more
  // Submits a job with a form: it begins at once if the form is known, and else when it is compiled.
  // generator: of the worker. Throws Refusal.
  void submit(const std::shared_ptr<Job>& job, const trl_generator* generator, Worker& worker);

 private:
  struct Waiting {
    std::shared_ptr<Job> job;
    const trl_generator* generator;
    Worker* worker;
  };
  struct Going;
  void work();
  Waiting next();
  static size_t hash_of(const Waiting& of);  // of its peer
  void compile(const Waiting& of) noexcept;
  std::optional<Refusal> refusal_of_form(const Waiting& of);
  std::shared_ptr<void> constraint(const Waiting& of, Going* going);

  const capi::ServeTable& table_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Waiting> waiting_;
  size_t last_peer_ = 0;  // the hash of the peer whose form was compiled last
  std::thread thread_;
  std::atomic<bool> stops_{true};
};

}  // namespace trl::serve
