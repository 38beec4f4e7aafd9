// Interrupts for tests: what polls them is asked every time.
#pragma once
#include <algorithm>

#include "base/interrupt.h"

namespace trl::test {

class Stops final : public base::Interrupt {
 public:
  Stops() { asked_ = 1; }
  bool goes_on() noexcept override { return false; }
};

// Stops at one poll, counted from 1, and at every later one until go_on().
class StopsAt final : public base::Interrupt {
 public:
  explicit StopsAt(int64_t at = 0) : at_(at) { asked_ = 1; }  // 0: never
  bool goes_on() noexcept override {
    const int64_t number = ++polls;
    return at_ == 0 || number < at_ || resumed_;
  }
  void go_on() { resumed_ = true; }
  std::atomic<int64_t> polls{0};

 private:
  const int64_t at_;
  std::atomic<bool> resumed_{false};
};

// How often body asks whether to continue. Below 0: one of these times did not end it (the first, the last
// and one in the middle are tried).
template <class Body>
int64_t polls_of(const Body& body) {
  StopsAt counts;
  {
    const base::InterruptScope scope(&counts);
    body();
  }
  for (const int64_t at : {int64_t{1}, counts.polls / 2, counts.polls.load()}) {
    StopsAt stops(std::max<int64_t>(1, at));
    const base::InterruptScope scope(&stops);
    try {
      body();
      return -at;  // it went on
    } catch (const Error& error) {
      if (error.status() != Status::cancelled) return -at;
    }
  }
  return counts.polls;
}

}  // namespace trl::test
