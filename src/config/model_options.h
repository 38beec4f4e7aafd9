// How a model is opened: the type of its weights (dtype), the form in which those of linear layers are held
// (load_in_4bit, load_in_8bit and related options), and the attention (attn_implementation). dtype and
// attn_implementation may also be entries of model_init_kwargs.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "config/config.h"

namespace trl::config {

// Returns auto, float32 or bfloat16. Throws Error(invalid_config) for another type, and if the two contradict
// each other.
std::string model_dtype(const Config& config);

// Does the same for the teacher: dtype in teacher_model_init_kwargs, or the key dtype.
std::string teacher_dtype(const Config& config);

enum class WeightForm : uint8_t { numbers, nf4, fp4, int8 };

struct Quantization {
  WeightForm form = WeightForm::numbers;
  bool nested = false;  // the scales of 4-bit blocks are quantised too
  explicit operator bool() const { return form != WeightForm::numbers; }
};

// Throws Error(invalid_config) if both are asked for.
Quantization quantization(const Config& config);

// Says whether libtorch's own operators compute (fused_kernels: off).
bool plain_kernels(const Config& config);

struct AttentionArguments {
  std::string name;    // as given; empty: none was asked for
  std::string plugin;  // path of a shared library; empty: the built-in attention
};

// Throws Error(invalid_config), naming the nearest that works, for a name that this build does not have.
void check_attention(std::string_view key, const std::string& value);

// Does the same for the entries of model_init_kwargs, or those of the teacher, and checks their dtype; does
// nothing for another key.
void check_init_kwargs(std::string_view key, const std::string& map);

// Throws the errors of check_attention, and Error(not_found) for a plug-in that does not exist.
AttentionArguments attention_arguments(const Config& config);

}  // namespace trl::config
