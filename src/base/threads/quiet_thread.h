// The library's threads take no signals: signals belong to the host's own threads, which wait for them or
// have handlers. Only SIGBUS is not blocked: a thread gets it for its own reads (mapped_reads.h).
#pragma once
#include <signal.h>

#include <functional>
#include <string>
#include <thread>

namespace trl::base {

// While this lives, the calling thread takes no signals; a thread that it starts never takes any.
class NoSignals {
 public:
  NoSignals() noexcept;
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// Threads that this thread starts while this lives, other libraries' too, take no signals and get this name.
class StartingThreads {
 public:
  explicit StartingThreads(const char* name) noexcept;
  ~StartingThreads();

 private:
  const NoSignals quiet_;
  char before_[16] = "";
};

// name: at most 15 bytes, for ps and debuggers.
void name_thread(const std::string& name) noexcept;  // this one
std::thread quiet_thread(const std::string& name, std::function<void()> body);

}  // namespace trl::base
