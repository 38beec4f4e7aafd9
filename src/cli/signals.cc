#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <iterator>
#include <string_view>

#include "cli/handles.h"

namespace trl::cli {

namespace {

// A signal handler can reach its data only through globals. Lock-free atomics are safe there.
std::atomic<trl_trainer*> g_trainer{nullptr};
std::atomic<bool> g_polled{false};
std::atomic<const char*> g_last_words{nullptr};
std::atomic<int> g_signal{0};
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
struct sigaction g_before[std::size(kSignals)];

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void on_signal(int number) {
  const int before = errno;  // the interrupted code still reads its own
  int none = 0;
  if (!g_signal.compare_exchange_strong(none, number)) {
    if (number == SIGHUP) return;  // a terminal that goes away and its shell both send it
    _exit(128 + number);
  }
  trl_trainer* const trainer = g_trainer.load();
  if (trainer == nullptr && !g_polled) {
    say("\ntrl: ");
    say(g_last_words.load());
    say("\n");
    _exit(128 + number);
  }
  say("\ntrl: stopping at the next safe point; press Ctrl-C again to quit now\n");
  if (trainer != nullptr) trl_trainer_cancel(trainer);
  errno = before;
}

// Leaves a SIGHUP that is ignored from the start ignored, because nohup does that.
void install(int number, struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, &before);
  if (number == SIGHUP && before.sa_handler == SIG_IGN) sigaction(number, &before, nullptr);
}

}  // namespace

Interrupt::Interrupt(const char* last_words) {
  g_signal = 0;
  g_last_words = last_words;
  for (size_t i = 0; i < std::size(kSignals); ++i) install(kSignals[i], g_before[i]);
}

Interrupt::~Interrupt() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &g_before[i], nullptr);
  g_trainer = nullptr;
  g_polled = false;
}

void Interrupt::watch(trl_trainer* trainer) { g_trainer = trainer; }

void Interrupt::watch_calls(trl_runtime* runtime) {
  const auto stop = [](void*, const char*, int64_t, int64_t) -> int32_t {
    return g_signal != 0 ? TRL_PROGRESS_STOP : 0;
  };
  Error error;
  check(trl_runtime_set_progress(runtime, stop, nullptr, nullptr, error.out()), error);
  g_polled = true;
}

int Interrupt::signal_number() { return g_signal; }

}  // namespace trl::cli
