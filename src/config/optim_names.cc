#include "config/optim_names.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace trl::config {

namespace {

using O = Optim;
using S = OptimStates;

constexpr OptimName kNames[] = {
    {"adamw_torch_fused", O::adamw, S::as_weights},
    {"adamw_torch", O::adamw, S::as_weights, false, "adamw_torch_fused"},
    {"adamw_8bit", O::adamw, S::eight_bit},
    {"adamw_bnb_8bit", O::adamw, S::eight_bit, false, "adamw_8bit"},
    {"paged_adamw_8bit", O::adamw, S::eight_bit, true, "adamw_8bit"},
    {"paged_adamw_32bit", O::adamw, S::float32, true},
    {"ademamix", O::ademamix, S::float32},
    {"ademamix_8bit", O::ademamix, S::eight_bit},
    {"paged_ademamix_32bit", O::ademamix, S::float32, true, "ademamix"},
    {"paged_ademamix_8bit", O::ademamix, S::eight_bit, true, "ademamix_8bit"},
    {"lion_32bit", O::lion, S::float32},
    {"lion_8bit", O::lion, S::eight_bit},
    {"paged_lion_32bit", O::lion, S::float32, true, "lion_32bit"},
    {"paged_lion_8bit", O::lion, S::eight_bit, true, "lion_8bit"},
    {"rmsprop", O::rmsprop, S::as_weights},
    {"rmsprop_bnb", O::rmsprop, S::float32},
    {"rmsprop_bnb_32bit", O::rmsprop, S::float32, false, "rmsprop_bnb"},
    {"rmsprop_bnb_8bit", O::rmsprop, S::eight_bit},
    {"sgd", O::sgd, S::as_weights},
    {"adagrad", O::adagrad, S::as_weights},
    {"adafactor", O::adafactor, S::float32},
};

struct Missing {
  std::string_view name, why, nearest;
};
constexpr std::string_view kTorchao = "it is torchao's, which this build does not have";
constexpr std::string_view kDevice = "it is for a device that this build does not know";
constexpr std::string_view kLowRank = "gradients are not projected in this build";
constexpr std::string_view kOther = "this build does not have it";
constexpr Missing kMissing[] = {
    {"adamw_torch_4bit", kTorchao, "adamw_8bit"},
    {"adamw_torch_8bit", kTorchao, "adamw_8bit"},
    {"adamw_torch_xla", kDevice, "adamw_torch"},
    {"adamw_torch_npu_fused", kDevice, "adamw_torch"},
    {"adamw_anyprecision", kOther, "adamw_torch"},
    {"galore_adamw", kLowRank, "adamw_8bit"},
    {"galore_adamw_8bit", kLowRank, "adamw_8bit"},
    {"galore_adafactor", kLowRank, "adafactor"},
    {"galore_adamw_layerwise", kLowRank, "adamw_8bit"},
    {"galore_adamw_8bit_layerwise", kLowRank, "adamw_8bit"},
    {"galore_adafactor_layerwise", kLowRank, "adafactor"},
    {"apollo_adamw", kLowRank, "adamw_8bit"},
    {"apollo_adamw_layerwise", kLowRank, "adamw_8bit"},
    {"lomo", kOther, "sgd"},
    {"adalomo", kOther, "adafactor"},
    {"grokadamw", kOther, "adamw_torch"},
    {"stable_adamw", kOther, "adamw_torch"},
    {"schedule_free_adamw", kOther, "adamw_torch"},
    {"schedule_free_radam", kOther, "adamw_torch"},
    {"schedule_free_sgd", kOther, "sgd"},
};

}  // namespace

const OptimName& optim_named(std::string_view key, std::string_view name) {
  for (const Missing& missing : kMissing) {
    if (missing.name != name) continue;
    fail_key(key, "{}: {} is refused: {}; the nearest is {}", key, name, missing.why, missing.nearest);
  }
  const auto* const found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const OptimName& n) { return n.name == name; });
  if (found == std::end(kNames)) fail(Status::internal, "optim {} is not in any table", name);
  return *found;
}

}  // namespace trl::config
