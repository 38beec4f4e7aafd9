// Whether a model sleeps: what it has in memory, and what becomes of requests.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace trl::serve {

// Says how putting a model to sleep treats requests that run: abort ends them, wait lets them end, keep holds
// them until the model is awake.
enum class SleepMode { abort, wait, keep };

// Names the memory that a model takes back.
struct WakeTags {
  bool weights = false, kv_cache = false;
};

class SleepState {
 public:
  // level: 1 gives keys and values back, 2 also the weights, of which a host's model has no second copy:
  // those that its generators make of them go back. Both have to be asked for again.
  void fall(int level) {
    keys_ = false;
    if (level > 1) weights_ = false;
  }
  void wake(WakeTags tags) {
    keys_ |= tags.kv_cache;
    weights_ |= tags.weights;
  }
  // whole: false: an update has left the weights incomplete.
  void set_whole(bool whole) { whole_ = whole; }
  bool whole() const { return whole_; }
  bool awake() const { return keys_ && weights_ && whole_; }
  std::string refusal() const;  // of a request meanwhile: what to do

 private:
  bool keys_ = true, weights_ = true, whole_ = true;
};

// Throw Refusal(400).
void check_level(int64_t level, SleepMode mode);
SleepMode sleep_mode(std::string_view name);
WakeTags wake_tags(std::span<const std::string> names);  // each may be several with commas; none: all

}  // namespace trl::serve
