// The values of `optim`: which optimizer each is, and how it holds its states.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trl::config {

enum class Optim : uint8_t { adamw, sgd, rmsprop, adagrad, adafactor, lion, ademamix };
// as_weights: in the type of the weight. eight_bit: codes in blocks, float32 where bitsandbytes uses that.
enum class OptimStates : uint8_t { as_weights, float32, eight_bit };

struct OptimName {
  std::string_view name;
  Optim optim;
  OptimStates states;
  bool paged = false;               // in a file
  std::string_view canonical = {};  // the name of the same numbers in the same states; empty: its own
};

// Throws Error(invalid_config) naming the nearest optimizer for a name of transformers' that is not built.
const OptimName& optim_named(std::string_view key, std::string_view name);

}  // namespace trl::config
