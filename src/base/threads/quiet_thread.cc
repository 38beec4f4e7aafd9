#include "base/threads/quiet_thread.h"

#include <pthread.h>

namespace trl::base {

NoSignals::NoSignals() noexcept {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}
NoSignals::~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void name_thread(const std::string& name) noexcept { pthread_setname_np(pthread_self(), name.c_str()); }

StartingThreads::StartingThreads(const char* name) noexcept {
  pthread_getname_np(pthread_self(), before_, sizeof before_);
  pthread_setname_np(pthread_self(), name);  // a new thread inherits it
}
StartingThreads::~StartingThreads() { pthread_setname_np(pthread_self(), before_); }

std::thread quiet_thread(const std::string& name, std::function<void()> body) {
  const StartingThreads starting(name.c_str());
  return std::thread(std::move(body));
}

}  // namespace trl::base
