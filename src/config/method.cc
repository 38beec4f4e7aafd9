#include "config/method.h"

#include <algorithm>

namespace trl::config {

namespace {

constexpr MethodRow kMethodRows[] = {
#define TRL_METHOD(bit, word, ...) {.name = #word, .built = true, __VA_ARGS__},
#define TRL_LATER(bit, word, ...) {.name = #word, __VA_ARGS__},
#include "config/methods.def"
};

constexpr size_t built_count() {
  size_t count = 0;
  while (count < std::size(kMethodRows) && kMethodRows[count].built) ++count;
  return count;
}

}  // namespace

std::span<const MethodRow> trainers() { return kMethodRows; }
std::span<const MethodRow> methods() { return trainers().first(built_count()); }

const MethodRow* find_method(std::string_view name) {
  const auto same = [](char a, char b) { return (a == '-' ? '_' : a) == b; };
  for (const MethodRow& row : methods())
    if (std::ranges::equal(name, std::string_view(row.name), same)) return &row;
  return nullptr;
}

}  // namespace trl::config
