// The interrupt of a call: a trainer's cancel and pause, trl_runtime_cancel, a callback that failed, or the
// end of the process.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/interrupt.h"
#include "trl/trl.h"

namespace trl::capi {

class Interrupt : public base::Interrupt {
 public:
  enum class Of : uint8_t { call, background };  // only the end of the process ends work in the background
  explicit Interrupt(Of of);
  virtual ~Interrupt();
  // Signal handlers use all of these too.
  void cancel() noexcept {
    ask(kCancel);
    tell_guests();
  }
  void pause() noexcept {
    ask(kPause);
    tell_guests();
  }
  void resume() noexcept {
    take_back(kPause);
    tell_guests();
  }
  // Ends the calls in progress that work for a runtime; null: all calls of the process.
  static void cancel_calls(const void* runtime) noexcept;
  static void end_all() noexcept;  // only for the end of the process

  bool paused() const noexcept { return (asked_.load() & kPause) != 0; }
  void answered() noexcept { take_back(kCancel); }  // each request ends one call
  void fail() noexcept final { ask(kFail); }
  void works_for(const void* runtime) noexcept { runtime_ = runtime; }
  // Begins a call on an interrupt that several calls use. A pause holds only calls that train, evaluate or
  // generate, so that the host can still use the trainer in other ways.
  void begin(bool pausable) noexcept {
    take_back(kFail | kStop);
    holds_.store(pausable);
  }
  bool cancelled() const noexcept { return (asked_.load() & kCancel) != 0; }  // a request has no answer yet
  // A call that uses this has come, and is gone: a cancel is for it, even if it still waits.
  void come() noexcept { present_.store(true); }
  void go() noexcept { present_.store(false); }
  bool present() const noexcept { return present_.load(); }
  // Makes this call a guest of a trainer until depart(): a pause of the trainer holds it too, if it is
  // pausable, and a cancel ends it if there is no call of the trainer itself.
  void visit(Interrupt& trainer, bool pausable) noexcept;
  void depart() noexcept;
  bool goes_on() noexcept final;

 protected:
  bool ends() const noexcept { return (asked_.load() & (kCancel | kStop | kFail)) != 0; }
  void be_watched() noexcept { ask(kWatched); }
  virtual void watch() noexcept {}  // at every poll of a call that continues, once be_watched()

 private:
  static constexpr uint32_t kCancel = 1, kPause = 2, kEnd = 4, kFail = 8, kWatched = 16, kStop = 32,
                            kLook = 64;  // at the requests to the trainer
  template <class Body>
  static void each(const Body& body) noexcept;
  void ask(uint32_t what) noexcept;
  void take_back(uint32_t what) noexcept;
  void tell_guests() noexcept;
  void follow(const Interrupt& trainer) noexcept;
  bool take_cancel() noexcept;
  const Of of_;
  std::atomic<const void*> runtime_{nullptr};
  std::atomic<Interrupt*> trainer_{nullptr};  // whose guest this is
  std::atomic<bool> holds_{false}, present_{false};
  std::atomic<Interrupt*> next_{nullptr};  // in the list of all
};

// Makes a call a guest of a trainer.
class Visit {
 public:
  Visit(Interrupt* call, Interrupt& trainer, bool pausable) noexcept : call_(call) {  // call: or null
    if (call_ != nullptr) call_->visit(trainer, pausable);
  }
  ~Visit() {
    if (call_ != nullptr) call_->depart();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Interrupt* const call_;
};

// The interrupt of a call that also reports the progress of the call to the callback of its runtime.

template <class Function>
struct Callback;
using ProgressCallback = Callback<trl_progress_fn>;

class ReportingInterrupt final : public Interrupt {
 public:
  ReportingInterrupt() : Interrupt(Of::call) {}
  // Reports this thread's call to the callback from here on, whenever the call polls; null: stops.
  void report_to(std::shared_ptr<const ProgressCallback> callback) noexcept;
  // The same for a call of a trainer, which reports only its saving.
  void report_saving_to(std::shared_ptr<const ProgressCallback> callback) noexcept;
  void progress(std::string_view phase, int64_t done, int64_t total) noexcept override;

 private:
  void watch() noexcept override;
  bool is_time() const noexcept;
  void tell() noexcept;
  std::shared_ptr<const ProgressCallback> callback_;
  std::thread::id thread_;
  bool only_saving_ = false;
  std::string phase_;
  int64_t done_ = 0, total_ = -1;
  std::chrono::steady_clock::time_point told_{};
  bool telling_ = false;
};

}  // namespace trl::capi
