// The frequencies of each rope type, and the factor of its cosines and sines.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/config/rope.h"

namespace trl::model {

namespace {

// Llama 3.1: wavelengths beyond the original context are stretched by the factor, short ones kept, and those
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

// Peng et al. 2023: frequencies that turn often within the original context are kept, slow ones divided by
// the factor, and a ramp between.
class YarnRamp {
 public:
  YarnRamp(const RopeConfig& rope, int64_t turned) : factor_(static_cast<float>(rope.factor)) {
    const auto place_of = [&](double turns) {
      const auto length = static_cast<double>(rope.original_max_position_embeddings);
      return static_cast<double>(turned) * std::log(length / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(rope.theta));
    };
    double low = place_of(rope.beta_fast), high = place_of(rope.beta_slow);
    if (rope.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low_ = static_cast<float>(std::max(low, 0.0));
    high_ = static_cast<float>(std::min(high, static_cast<double>(turned - 1)));
    if (low_ == high_) high_ += 0.001f;
  }
  float operator()(float frequency, int64_t i) const {
    const float slow = std::clamp((static_cast<float>(i) - low_) / (high_ - low_), 0.0f, 1.0f);
    return frequency / factor_ * slow + frequency * (1 - slow);
  }

 private:
  const float factor_;
  float low_, high_;
};

// The base, which grows with the length beyond the original context.
double dynamic_theta(const RopeConfig& rope, int64_t turned, int64_t length) {
  const auto limit = static_cast<double>(rope.max_position_embeddings);
  const double reached = std::max(static_cast<double>(length), limit);
  const auto n = static_cast<double>(turned);
  return rope.theta * std::pow(rope.factor * reached / limit - (rope.factor - 1), n / (n - 2));
}

}  // namespace

std::vector<float> inverse_frequencies(const RopeConfig& rope, int64_t head_dim, int64_t length) {
  const bool whole = rope.type == "proportional";  // exponents are those of the whole head
  const int64_t turned = static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial) / 2 * 2;
  const auto theta =
      static_cast<float>(rope.type == "dynamic" ? dynamic_theta(rope, turned, length) : rope.theta);
  const std::vector<double>& stretch =
      length > rope.original_max_position_embeddings ? rope.long_factor : rope.short_factor;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < turned; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(whole ? head_dim : turned);
    float frequency = 1.0f / std::pow(theta, exponent);
    if (rope.type == "linear" || whole) frequency /= static_cast<float>(rope.factor);
    if (rope.type == "llama3") frequency = llama3_frequency(frequency, rope);
    if (rope.type == "yarn") frequency = YarnRamp(rope, turned)(frequency, i / 2);
    if (rope.type == "longrope")
      frequency =
          1.0f / (static_cast<float>(stretch[static_cast<size_t>(i / 2)]) * std::pow(theta, exponent));
    frequencies.push_back(frequency);
  }
  if (whole) frequencies.resize(static_cast<size_t>(head_dim / 2), 0.0f);
  return frequencies;
}

double rope_attention_factor(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.type == "longrope") {
    const auto original = static_cast<double>(rope.original_max_position_embeddings);
    return rope.factor <= 1 ? 1 : std::sqrt(1 + std::log(rope.factor) / std::log(original));
  }
  if (rope.type != "yarn") return 1;
  const auto of = [&](double mscale) {
    return rope.factor <= 1 ? 1 : 0.1 * mscale * std::log(rope.factor) + 1;
  };
  return rope.mscale != 0 && rope.mscale_all_dim != 0 ? of(rope.mscale) / of(rope.mscale_all_dim) : of(1);
}

}  // namespace trl::model
