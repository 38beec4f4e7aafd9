#include "config/model_dtype.h"

#include "base/error.h"
#include "config/option_value.h"

namespace trl::config {

std::string model_dtype(const Config& config) {
  constexpr std::string_view kKey = "dtype", kKwargs = "model_init_kwargs";
  std::string dtype = config.get(kKey);
  bool given = config.is_set(kKey);
  for (const auto& [entry, value] : config.get_pairs(kKwargs)) {
    if (entry != kKey && entry != "torch_dtype") continue;
    const std::string name = fmt::format("{}: {}", kKwargs, entry);
    const std::string asked = value == "null" ? "auto" : canonical_value(*find_option(kKey), name, value);
    check_support(*find_option(kKey), name, asked);
    if (given && dtype != asked) {
      fail_key(kKwargs, "{}: {} contradicts {}: {}: give one of them", name, shown(asked), kKey,
               shown(dtype));
    }
    dtype = asked;
    given = true;
  }
  return dtype;
}

}  // namespace trl::config
