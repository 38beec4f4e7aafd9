// The options of serve_bench.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "support/command.h"

namespace trl::bench {

struct ServeSettings : PeerSettings {
  std::string model, tokenizer, llama;
  std::vector<std::string> parts;
  int64_t streams = 16, prompt = 64, new_tokens = 128, connections = 1000, swaps = 20, rank = 16, steps = 3;
};

}  // namespace trl::bench
