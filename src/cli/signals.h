// Ctrl-C, SIGTERM and SIGHUP: the first signal asks the trainer, or a call that polls, to stop at its next
// safe point; a second one, unless it is SIGHUP, quits at once. If neither is running there is nothing to
// clean up, and the first signal quits.
#pragma once
#include <trl.h>

namespace trl::cli {

class Interrupt {
 public:
  // Installs handlers; one object at a time. last_words: printed if the first signal quits.
  explicit Interrupt(const char* last_words);
  ~Interrupt();  // restores the earlier handlers
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  void watch(trl_trainer* trainer);        // must outlive this object
  void watch_calls(trl_runtime* runtime);  // cancels calls that make something for it
  static int signal_number();              // the first signal received, or 0
};

}  // namespace trl::cli
