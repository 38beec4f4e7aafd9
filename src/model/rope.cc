#include "model/rope.h"

#include <cmath>
#include <numbers>

#include "tensor/counted.h"
#include "tensor/parallel.h"

namespace trl::model {

namespace {

// Llama 3.1: wavelengths beyond the original context are stretched by the factor, short ones kept, those
// between interpolated.
float llama3_frequency(float frequency, const RopeConfig& rope) {
  const auto old_length = static_cast<double>(rope.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < old_length / rope.high_freq_factor) return frequency;
  const double slow = frequency / rope.factor;
  if (wavelength > old_length / rope.low_freq_factor) return static_cast<float>(slow);
  const double smooth =
      (old_length / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return static_cast<float>((1 - smooth) * slow + smooth * frequency);
}

}  // namespace

std::vector<float> inverse_frequencies(const RopeConfig& rope, int64_t head_dim) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    float frequency = 1.0f / std::pow(static_cast<float>(rope.theta), exponent);
    if (rope.type == "linear") frequency /= static_cast<float>(rope.factor);
    if (rope.type == "llama3") frequency = llama3_frequency(frequency, rope);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RopeTables rope_tables(const std::vector<float>& inverse_frequencies, const at::Tensor& position_ids) {
  const int64_t tokens = position_ids.numel();
  const auto width = static_cast<int64_t>(inverse_frequencies.size());
  RopeTables tables{tensor::empty({tokens, width}, at::kFloat, tensor::MemoryKind::activations),
                    tensor::empty({tokens, width}, at::kFloat, tensor::MemoryKind::activations)};
  const int32_t* positions = position_ids.data_ptr<int32_t>();
  float* cos = tables.cos.data_ptr<float>();
  float* sin = tables.sin.data_ptr<float>();
  const float* frequencies = inverse_frequencies.data();
  tensor::parallel_for(tokens, 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < width; ++i) {
        const float angle = static_cast<float>(positions[t]) * frequencies[i];
        cos[t * width + i] = std::cos(angle);
        sin[t * width + i] = std::sin(angle);
      }
    }
  });
  return tables;
}

}  // namespace trl::model
