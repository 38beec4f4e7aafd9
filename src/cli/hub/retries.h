// Decides how often a request is repeated, and after how many seconds.
#pragma once
#include <algorithm>

#include "cli/hub/request.h"

namespace trl::cli::hub {

class Retries {
 public:
  static constexpr int kMost = 5;
  // Returns the seconds to wait before the next try; negative: no more tries, because there were enough, the
  // hub asks for more than two minutes, or nothing has answered yet and it is time to say so.
  double next(const Reply& reply) {
    if (++made_ > kMost) return -1;
    const double seconds = seconds_to_wait(reply, std::min(0.5 * (1 << made_), 8.0));
    return seconds > kLongest || seconds >= seconds_to_reach() ? -1 : std::max(seconds, 0.1);
  }
  void progress() { made_ = 0; }  // bytes were received: further tries are worthwhile

 private:
  static constexpr double kLongest = 120;
  int made_ = 0;
};

}  // namespace trl::cli::hub
