// Ctrl-C and SIGTERM: the first asks the trainer, or a call that polls, to stop at its next safe point, a
// second one quits at once. Without either there is nothing to clean up, and the first one quits.
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
  void watch(trl_trainer* trainer);        // which outlives this object
  void watch_calls(trl_runtime* runtime);  // that make something for it: they are cancelled
  static int signal_number();              // the first signal that came, or 0
};

}  // namespace trl::cli
