// The interrupt of a call: a trainer's cancel and pause, a progress callback, or the end of the process.
#pragma once
#include "base/interrupt.h"

namespace trl::capi {

class Interrupt : public base::Interrupt {
 public:
  Interrupt();  // registers itself with the end of the process, for as long as it lives
  virtual ~Interrupt();
  // From any thread, and from signal handlers.
  void cancel() noexcept { ask(kCancel); }
  void pause() noexcept { ask(kPause); }
  void resume() noexcept { take_back(kPause); }
  void end() noexcept { ask(kEnd); }  // for the end of the process alone

  bool paused() const noexcept { return (asked_.load() & kPause) != 0; }
  void answered() noexcept { take_back(kCancel); }  // each request ends one call
  void fail() noexcept final { ask(kFail); }
  // Begins a call. A pause holds only training calls, so that the host can still use the trainer in other
  // ways.
  void begin(bool pausable) noexcept {
    take_back(kFail);
    holds_.store(pausable);
  }
  bool goes_on() noexcept final;

 protected:
  void be_watched() noexcept { ask(kWatched); }
  virtual void watch() noexcept {}  // at every poll, once be_watched()

 private:
  static constexpr uint32_t kCancel = 1, kPause = 2, kEnd = 4, kFail = 8, kWatched = 16;
  void ask(uint32_t what) noexcept;
  void take_back(uint32_t what) noexcept;
  std::atomic<bool> holds_{false};
};

}  // namespace trl::capi
