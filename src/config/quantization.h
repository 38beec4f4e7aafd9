// The form in which the weights of linear layers are held: load_in_4bit, load_in_8bit and related options.
#pragma once
#include <cstdint>

#include "config/config.h"

namespace trl::config {

enum class WeightForm : uint8_t { numbers, nf4, fp4, int8 };

struct Quantization {
  WeightForm form = WeightForm::numbers;
  bool nested = false;  // the scales of 4-bit blocks are quantised too
  explicit operator bool() const { return form != WeightForm::numbers; }
};

// Throws Error(invalid_config) if both are asked for.
Quantization quantization(const Config& config);

}  // namespace trl::config
