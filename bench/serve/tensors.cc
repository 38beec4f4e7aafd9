#include "serve/client.h"
#include "serve/parts.h"
#include "serve/plain_ways.h"
#include "serve/rewarded_run.h"
#include "serve/served.h"
#include "support/abi.h"

namespace trl::bench {

namespace {

constexpr double kMost = 1.5;  // times a plain copy of the same bytes
constexpr int64_t kGroup = 4;
// Steps that are not counted: the server has the weights of the first, and in the next two it and the client
// take the memory that stays.
constexpr int64_t kFirst = 3;
constexpr const char* kType = "bfloat16";

// Seconds in which the server's model waited for weights so far.
double swap_seconds(const Served& served) {
  constexpr std::string_view kName = "trl_weight_swap_seconds_total{";
  const std::string text = get_body(served.port(), "/metrics");
  const size_t at = text.find(kName);
  if (at == text.npos) throw std::runtime_error("/metrics has no trl_weight_swap_seconds_total");
  return std::strtod(text.c_str() + text.find("} ", at) + 2, nullptr);
}

size_t weight_bytes(const Served& served) {
  const char* text = nullptr;
  TRL_CHECK(trl_model_describe(served.model(), &text, &error));
  return 2 * Json::parse(text).at("parameters").get<size_t>();
}

// Steps of a run of all weights, which a server gets after each: the seconds on their way, those in which the
// server's model waits, and before each step a copy of as many bytes and their way over a plain connection.
Json run_way(const ServeSettings& s, const Scratch& scratch, const std::string& way,
             const std::string& host) {
  const Served served(s.model, s.threads, {{"serve.hosts", Json::array({host})}}, kType);
  const int64_t steps = s.steps + kFirst;
  RewardedRun run({{"method", "grpo"},
                   {"model_name_or_path", s.model},
                   {"dtype", kType},
                   {"bf16", false},
                   {"learning_rate", 0.01},  // so that each number changes
                   {"num_generations", kGroup},
                   {"per_device_train_batch_size", kGroup},
                   {"max_completion_length", 4},
                   {"max_steps", steps},
                   {"save_strategy", "no"},
                   {"profile_parts", true},
                   {"use_vllm", true},
                   {"vllm_mode", "server"},
                   {"vllm_server_base_url", "http://" + host + ":" + std::to_string(served.port())},
                   {"runtime.threads", s.threads},
                   {"output_dir", scratch.file(way)}},
                  steps);
  PlainWays plain_ways(weight_bytes(served));
  std::vector<double> syncs, swaps, copies, loopbacks;
  for (int64_t i = 0; i < steps; ++i) {
    const double before = swap_seconds(served), copied = plain_ways.copy(), sent = plain_ways.loopback();
    run.step();
    if (i < kFirst) continue;
    copies.push_back(copied);
    loopbacks.push_back(sent);
    syncs.push_back(run.metric("profile/sync"));
    swaps.push_back(swap_seconds(served) - before);
  }
  const double plain = median(copies), loopback = median(loopbacks);
  return {{"bench", "tensors"},
          {"way", way},
          {"bytes", weight_bytes(served)},
          {"copy_ms", 1000 * plain},
          {"loopback_ms", 1000 * loopback},
          {"sync_ms", 1000 * median(syncs)},
          {"model_waits_ms", 1000 * median(swaps)},
          {"sync_to_copy", median(syncs) / plain},
          {"sync_to_loopback", median(syncs) / loopback},
          {"model_waits_to_copy", median(swaps) / plain}};
}

}  // namespace

bool measure_tensors(const ServeSettings& s, const Scratch& scratch) {
  const Json shared = run_way(s, scratch, "shared memory", "127.0.0.1");
  print(shared);
  // The same address in a form in which the run does not see that the server is on its machine.
  print(run_way(s, scratch, "http", "[::ffff:127.0.0.1]"));
  return shared.at("sync_to_copy") <= kMost;
}

}  // namespace trl::bench
