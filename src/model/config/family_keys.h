// Reads the value of a key that a family's row names, or gives the row's own value.
#pragma once
#include <cstdint>

#include "base/error.h"
#include "model/config/config_keys.h"
#include "model/config/families.h"

namespace trl::model {

inline bool flag_of(const ConfigKeys& keys, const FlagKey& flag) {
  return flag.key == nullptr ? flag.otherwise : keys.flag_or(flag.key, flag.otherwise);
}

inline double positive_of(const ConfigKeys& keys, const NumberKey& number) {
  return number.key == nullptr ? number.otherwise : keys.positive_or(number.key, number.otherwise);
}

// The cap: as in transformers' configurations, the family's value if the key is missing, none if it is null.
inline double softcap_of(const ConfigKeys& keys, const NumberKey& number) {
  if (number.key == nullptr || !keys.has(number.key)) return number.otherwise;
  return keys.positive_or(number.key, 0);
}

// A number from 0 to 1.
inline double rate_of(const ConfigKeys& keys, const NumberKey& number) {
  if (number.key == nullptr || keys.find(number.key) == nullptr) return number.otherwise;
  const double rate = keys.number(number.key);
  if (!(rate >= 0 && rate <= 1)) {
    fail(Status::format, "{}: \"{}\" is {}; expected a number from 0 to 1", keys.origin(), number.key,
         keys.need(number.key).dump());
  }
  return rate;
}

inline int64_t size_of(const ConfigKeys& keys, const SizeKey& size, int64_t limit = kMaxExtent) {
  return size.otherwise > 0 ? keys.size_or(size.key, size.otherwise, limit) : keys.size(size.key, limit);
}

}  // namespace trl::model
