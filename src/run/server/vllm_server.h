// Finds out about the server that completions come from.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "run/server/exchange.h"

namespace trl::run {

struct VllmServer {
  // openai: vLLM's own routes, as TRL 1.16's client uses them. old: those of trl vllm-serve up to TRL 1.10.
  enum class Protocol : uint8_t { openai, old };
  Protocol protocol = Protocol::openai;
  std::string model;                      // that requests name; old: none does
  bool ours = false;                      // it draws as this library's engine does (trl_seed, trl_stream)
  std::vector<std::string> weights = {};  // of ours: how it takes them
  int64_t user = -1;                      // of ours: the number of its user on its machine; -1: not told

  bool takes(std::string_view way) const;
};

// Waits until the server answers, for at most `seconds`, and asks what it is. Throws Error(io) for
// kServerKey.
VllmServer find_server(Exchange& exchange, double seconds, base::LogSink& log);

}  // namespace trl::run
