// The seconds of GRPO's updates alone, of our side.
#pragma once
#include "online/work.h"

namespace trl::bench {

void fit_updates(const OnlineSettings& s, const Scratch& scratch);
void compare_windows(const OnlineSettings& s, const Scratch& scratch);

}  // namespace trl::bench
