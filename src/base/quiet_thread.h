// Threads of ours take no signals: those belong to the host's own threads, which wait for them or have
// handlers.
#pragma once
#include <signal.h>

#include <functional>
#include <thread>

namespace trl::base {

// The calling thread takes no signal meanwhile, and a thread that starts meanwhile never does.
class NoSignals {
 public:
  NoSignals() noexcept;
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// name: at most 15 bytes, for ps and debuggers.
void name_thread(const char* name) noexcept;
std::thread quiet_thread(const char* name, std::function<void()> body);

}  // namespace trl::base
