#include "config/gone_values.h"

namespace trl::config {

namespace {

struct GoneValue {
  std::string_view key, value, what;
};

constexpr std::string_view kToKto =
    "it became a trainer of its own: trl kto (method: kto), which also takes pairs of chosen and rejected";
constexpr std::string_view kNotHere = "it became a trainer of its own, which this build does not have";

constexpr GoneValue kGoneValues[] = {
    {"loss_type", "kto_pair", kToKto},
    {"loss_type", "kto", kToKto},
    {"loss_type", "bco",
     "it became a trainer of its own, which this build does not have; trl dpo has bco_pair"},
    {"loss_type", "orpo", kNotHere},
    {"loss_type", "cpo", kNotHere},
    {"loss_type", "simpo",
     "it is a loss of the trainer CPO, which this build does not have; the nearest of trl dpo is "
     "sigmoid_norm, "
     "which takes means over tokens too, with a reference"},
    {"loss_type", "aot_pair", "it is called aot_unpaired now"},
    {"loss_type", "dpo", "it is called sigmoid"},
};

}  // namespace

std::string_view gone_value(std::string_view key, std::string_view value) {
  for (const GoneValue& gone : kGoneValues) {
    if (gone.key == key && gone.value == value) return gone.what;
  }
  return {};
}

}  // namespace trl::config
