// The seconds of GRPO's updates and steps, of our side.
#pragma once
#include "online/work.h"

namespace trl::bench {

void fit_updates(const OnlineSettings& s, const Scratch& scratch);
void compare_windows(const OnlineSettings& s, const Scratch& scratch);
// Steps whose rewards the host gives at once, and --late milliseconds after it was asked.
void compare_late_rewards(const OnlineSettings& s, const Scratch& scratch);

}  // namespace trl::bench
