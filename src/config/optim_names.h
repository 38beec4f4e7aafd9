// The values of `optim`: the optimizer of each, and how it holds its states.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trl::config {

enum class Optim : uint8_t { adamw, sgd, rmsprop, adagrad, adafactor, lion, ademamix };
// as_weights: in the type of the weight. eight_bit: codes in blocks, float32 in the same cases as
// bitsandbytes.
enum class OptimStates : uint8_t { as_weights, float32, eight_bit };

struct OptimName {
  std::string_view name;
  Optim optim;
  OptimStates states;
  bool paged = false;  // in a file
  // The name with the same numbers in the same states; empty: this name.
  std::string_view canonical = {};
};

// Throws Error(invalid_config), naming the nearest optimizer, for a transformers name that is not built.
const OptimName& optim_named(std::string_view key, std::string_view name);

}  // namespace trl::config
