// Ctrl-C and SIGTERM: the first asks the trainer to stop at its next safe point, a second one quits at once.
// Without a trainer there is nothing to save, and the first one quits.
#pragma once
#include <trl.h>

namespace trl::cli {

class Interrupt {
 public:
  Interrupt();   // handlers are installed; one object at a time
  ~Interrupt();  // and the ones before put back
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  void watch(trl_trainer* trainer);  // which outlives this object
  static int signal_number();        // the first signal that came, or 0
};

}  // namespace trl::cli
