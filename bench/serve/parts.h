// The parts of serve_bench, a source for each.
#pragma once
#include "serve/settings.h"
#include "support/scratch.h"

namespace trl::bench {

// Each prints lines, and returns whether its bounds hold.
bool measure_streams(const ServeSettings& s, const Scratch& scratch);
bool measure_idle(const ServeSettings& s, const Scratch& scratch);
bool measure_swap(const ServeSettings& s, const Scratch& scratch);
bool measure_tensors(const ServeSettings& s, const Scratch& scratch);
bool measure_grpo(const ServeSettings& s, const Scratch& scratch);
bool measure_learn(const ServeSettings& s, const Scratch& scratch);

struct ServePart {
  const char* name;
  bool (*measure)(const ServeSettings&, const Scratch&);
};

inline constexpr ServePart kServeParts[] = {{"streams", measure_streams}, {"idle", measure_idle},
                                            {"swap", measure_swap},       {"tensors", measure_tensors},
                                            {"grpo", measure_grpo},       {"learn", measure_learn}};

}  // namespace trl::bench
