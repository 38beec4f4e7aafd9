// Puts the entries of a map under other numbers.
#pragma once
#include <cstdint>
#include <map>
#include <utility>

namespace trl::base {

// Moves the entries of `from` into `to`, the one of number 0 under the number `first`. Allocates nothing, and
// cannot fail, so that what may fail is done before the numbers are known.
template <typename Value>
void renumber(std::map<int64_t, Value>& from, int64_t first, std::map<int64_t, Value>& to) noexcept {
  while (!from.empty()) {
    auto entry = from.extract(from.begin());
    entry.key() += first;
    to.insert(to.end(), std::move(entry));
  }
}

}  // namespace trl::base
