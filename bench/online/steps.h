// Steps of a method that writes completions, beside TRL's.
#pragma once
#include "online/work.h"

namespace trl::bench {

// writes: each side writes its completions; else both learn from the same ones, and their losses are compared
// first. Returns whether these are equal.
bool compare_steps(const OnlineSettings& s, const Scratch& scratch, bool writes);

}  // namespace trl::bench
