// The options of generate_bench.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "support/command.h"

namespace trl::bench {

struct GenerateSettings : PeerSettings {
  std::string model, tokenizer, text, peer, llama;
  std::vector<std::string> only, forms = {"bf16", "int8", "int4"}, peer_forms = {"bf16"};
  std::vector<int64_t> sequences = {1, 8, 32};  // rising
  int64_t context = 512, steps = 16, prompt = 1024, new_tokens = 32, row = 128, texts = 64;
  std::vector<int64_t> batches = {8, 16};  // of the peer
  bool int8_cache = false;
  double seconds = 0.5;  // for each speed of the machine
  double pool = 1;       // gigabytes of keys and values that are released

  bool wants(const char* part) const {
    return only.empty() || std::find(only.begin(), only.end(), part) != only.end();
  }
};

}  // namespace trl::bench
