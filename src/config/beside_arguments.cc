#include "config/beside_arguments.h"

#include "base/error.h"
#include "config/model_options.h"

namespace trl::config {

namespace {

constexpr const char* kServeShare = "serve_share";

[[noreturn]] void contradict(const Config& config, const char* other, const char* why) {
  fail_key(kServeShare,
           "{}: {} contradicts {}: {}, because {}: change it, or leave {} out, and generators take turns "
           "with the steps",
           kServeShare, config.get(kServeShare), other, config.get(other), why, kServeShare);
}

}  // namespace

std::optional<BesideArguments> beside_arguments(const Config& config) {
  if (!config.has(kServeShare) || !config.get_optional_double(kServeShare)) return std::nullopt;
  if (!config.get_bool("use_peft"))
    contradict(config, "use_peft",
               "all weights change in each step, and only an adapter has copies to answer with");
  if (config.get_text("memory_budget") && !config.is_set("estimate.prompt_tokens"))
    contradict(config, "memory_budget",
               "its plan knows how much memory requests take only with estimate.prompt_tokens");
  if (plain_kernels(config))
    contradict(config, "fused_kernels", "the sums of PyTorch's operators depend on the number of threads");
  return BesideArguments{.share = *config.get_optional_double(kServeShare),
                         .swaps_within = config.get("serve_swap") == "token",
                         .versions = config.get_int("serve_versions")};
}

}  // namespace trl::config
