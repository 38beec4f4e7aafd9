// Ctrl-C, SIGTERM and SIGHUP: the first signal asks the trainer, or a call that polls, to stop at its next
// safe point; a second one, unless it is SIGHUP, quits at once. If neither is running there is nothing to
// clean up, and the first signal quits.
#pragma once
#include <trl.h>

namespace trl::cli {

class Interrupt {
 public:
  // Handlers are installed; one object at a time. last_words: where the first signal quits.
  explicit Interrupt(const char* last_words);
  ~Interrupt();  // the handlers before are put back
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  void watch(trl_trainer* trainer);        // must outlive this object
  void watch_calls(trl_runtime* runtime);  // calls that make something for it are cancelled
  static int signal_number();              // the first signal that came, or 0
};

}  // namespace trl::cli
