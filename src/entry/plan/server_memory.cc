#include "entry/plan/server_memory.h"

#include "config/beside_arguments.h"
#include "entry/plan/generation_plan.h"

namespace trl::entry {

using base::MemoryKind;

std::vector<OfServer> of_servers(const Rehearsed& run, const config::Config& config,
                                 const config::TrainingArguments& arguments,
                                 const tensor::Rehearsal& rehearsal) {
  std::vector<OfServer> all;
  if (const auto beside = config::beside_arguments(config)) {
    constexpr int64_t kPublished = 2;  // the newest values, and those before while they are read
    all.push_back({"adapter for requests meanwhile", (beside->versions + kPublished) * run.trained_bytes, 1,
                   MemoryKind::weights});
    if (run.asked)
      all.push_back({"generation for requests meanwhile", with_bytes(*run.asked, rehearsal).bytes, 1,
                     MemoryKind::workspace});
  }
  const auto& server = arguments.online.server;
  if (server && server->weights == config::ServerWeights::tensors)
    all.push_back({"weights on their way to the server", run.trained_bytes, run.events - 1});
  return all;
}

}  // namespace trl::entry
