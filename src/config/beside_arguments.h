// serve_share and its siblings: requests are answered while the run trains.
#pragma once
#include <cstdint>
#include <optional>

#include "config/config.h"

namespace trl::config {

struct BesideArguments {
  double share = 0.5;         // of the threads, while requests are answered
  bool swaps_within = false;  // completions switch to the newest adapter; false: each keeps its own
  int64_t versions = 4;       // that exist at once
};

// Nothing without serve_share. Throws Error(invalid_config) for options whose runs cannot answer meanwhile.
std::optional<BesideArguments> beside_arguments(const Config& config);

}  // namespace trl::config
