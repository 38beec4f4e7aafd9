// Memory of servers in a plan: of requests that are answered while the run trains (serve_share), or of the
// weights on their way to a server that writes the completions.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/memory/memory.h"
#include "config/training_arguments.h"
#include "entry/plan/rehearsed_run.h"
#include "tensor/memory/rehearsal.h"

namespace trl::entry {

struct OfServer {
  const char* term;
  int64_t bytes, from;                        // up to the end
  std::optional<base::MemoryKind> kind = {};  // none: the memory counter does not see it
};

std::vector<OfServer> of_servers(const Rehearsed& run, const config::Config& config,
                                 const config::TrainingArguments& arguments,
                                 const tensor::Rehearsal& rehearsal);

}  // namespace trl::entry
