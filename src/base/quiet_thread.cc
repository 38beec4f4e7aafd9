#include "base/quiet_thread.h"

#include <pthread.h>

namespace trl::base {

NoSignals::NoSignals() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}
NoSignals::~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void name_thread(const char* name) noexcept { pthread_setname_np(pthread_self(), name); }

std::thread quiet_thread(const char* name, std::function<void()> body) {
  const NoSignals quiet;
  return std::thread([name, body = std::move(body)] {
    name_thread(name);
    body();
  });
}

}  // namespace trl::base
