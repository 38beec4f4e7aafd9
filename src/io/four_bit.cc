#include "io/four_bit.h"

#include <algorithm>
#include <cmath>

#include "io/half.h"

namespace trl::io {

namespace {

constexpr std::array<float, 16> kNf4 = {-1.0f,         -0.696192801f, -0.525073051f, -0.394917488f,
                                        -0.284441382f, -0.18477343f,  -0.091050036f, 0.0f,
                                        0.0795802996f, 0.160930201f,  0.246112302f,  0.337915242f,
                                        0.440709829f,  0.562617004f,  0.722956836f,  1.0f};
constexpr std::array<float, 16> kFp4 = {
    0.0f, 0x1.555556p-8f,  0x1.555556p-1f,  1.0f,  0x1.555556p-2f,  0.5f,  0x1.555556p-3f,  0.25f,
    0.0f, -0x1.555556p-8f, -0x1.555556p-1f, -1.0f, -0x1.555556p-2f, -0.5f, -0x1.555556p-3f, -0.25f};
// The codes of fp4 in the order of their values. The code 0 is the first of its two zeros.
constexpr std::array<uint8_t, 16> kFp4Order = {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3};

struct Codes {
  std::array<uint8_t, 16> order;
  // The midpoints between neighbours; a value at one gets the lower code.
  std::array<float, 15> bounds;
  explicit Codes(FourBit type) : order{} {
    const std::array<float, 16>& code = four_bit_code(type);
    for (uint8_t i = 0; i < 16; ++i) order[i] = type == FourBit::fp4 ? kFp4Order[i] : i;
    for (size_t i = 0; i < 15; ++i) bounds[i] = (code[order[i]] + code[order[i + 1]]) / 2;
  }
  uint8_t nearest(float value) const {
    unsigned above = 0;
    for (const float bound : bounds) above += value > bound ? 1 : 0;
    return order[above];
  }
};

const Codes& codes_of(FourBit type) {
  static const Codes all[] = {Codes(FourBit::nf4), Codes(FourBit::fp4)};
  return all[static_cast<size_t>(type)];
}

// Returns the largest magnitude, or NaN if one of the values is not finite.
float largest(const float* values, int64_t count) {
  float top = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return std::nanf("");
    top = std::max(top, std::abs(values[i]));
  }
  return top;
}

}  // namespace

const std::array<float, 16>& four_bit_code(FourBit type) { return type == FourBit::nf4 ? kNf4 : kFp4; }

// Multiplies a whole block by 1 / absmax, but divides the rest at the end: they differ in the last bit.
int64_t encode_four_bit(FourBit type, const float* values, int64_t count, int64_t block, uint8_t* codes,
                        float* absmax) {
  constexpr float kLeast = 1e-38f;
  const Codes& known = codes_of(type);
  const uint8_t zero = known.nearest(0.0f);
  for (int64_t first = 0; first < count; first += block, ++absmax) {
    const int64_t size = std::min(block, count - first);
    const float* const from = values + first;
    float top = largest(from, size);
    if (std::isnan(top))
      return std::find_if_not(from, from + size, [](float x) { return std::isfinite(x); }) - values;
    if (size < block) top = std::max(top, kLeast);
    *absmax = top;
    const float inverse = 1.0f / std::max(top, kLeast);
    const auto code = [&](int64_t i) {
      return known.nearest(size < block ? from[i] / top : std::clamp(from[i] * inverse, -1.0f, 1.0f));
    };
    for (int64_t i = 0; i < size; i += 2) {
      const uint8_t second = i + 1 < size ? code(i + 1) : zero;
      codes[(first + i) / 2] = static_cast<uint8_t>(code(i) << 4 | second);
    }
  }
  return count;
}

namespace {

// Seven decades, the i-th from below of 2^i steps, or twice as many without a sign: the midpoints between the
// points that cut 0.1 to 1 into the steps, times a power of ten; with both signs, and 0 and 1.
std::array<float, 256> dynamic_values(bool with_sign) {
  std::array<float, 256> values{0.0f, 1.0f};
  size_t next = 2;
  for (int decade = 0; decade < 7; ++decade) {
    const int steps = (with_sign ? 1 : 2) << decade;
    const float step = (1.0f - 0.1f) / static_cast<float>(steps);
    const auto point = [&](int i) {  // counted from the nearer end, rounded once
      return 2 * i < steps + 1 ? std::fma(step, static_cast<float>(i), 0.1f)
                               : std::fma(-step, static_cast<float>(steps - i), 1.0f);
    };
    const auto power = static_cast<float>(std::pow(10.0, decade - 6));
    for (int i = 0; i < steps; ++i) {
      const float value = power * ((point(i) + point(i + 1)) / 2.0f);
      values[next++] = value;
      if (with_sign) values[next++] = -value;
    }
  }
  std::ranges::sort(values);
  return values;
}

}  // namespace

const std::array<float, 256>& dynamic_code() {
  static const std::array<float, 256> code = dynamic_values(true);
  return code;
}

const std::array<float, 256>& unsigned_dynamic_code() {
  static const std::array<float, 256> code = dynamic_values(false);
  return code;
}

namespace {

// Returns the nearest code of each of 65536 points from -1 to 1.
const std::array<uint8_t, 65536>& nearest_dynamic() {
  static const auto nearest = [] {
    std::array<uint8_t, 65536> table{};
    const std::array<float, 256>& code = dynamic_code();
    size_t best = 0;
    for (size_t i = 0; i < table.size(); ++i) {
      const double value = static_cast<double>(i) / 65535.0 * 2.0 - 1.0;
      const auto distance = [&](size_t c) { return std::abs(value - static_cast<double>(code[c])); };
      while (best + 1 < code.size() && distance(best + 1) < distance(best)) ++best;
      table[i] = static_cast<uint8_t>(best);
    }
    return table;
  }();
  return nearest;
}

}  // namespace

void encode_dynamic(const float* values, int64_t count, int64_t block, uint8_t* codes, float* absmax) {
  const std::array<uint8_t, 65536>& nearest = nearest_dynamic();
  for (int64_t first = 0; first < count; first += block, ++absmax) {
    const int64_t size = std::min(block, count - first);
    *absmax = largest(values + first, size);
    const float inverse = 1.0f / *absmax;
    for (int64_t i = first; i < first + size; ++i) {
      const float place = std::floor((values[i] * inverse + 1.0f) * 32767.5f + 0.5f);
      codes[i] = *absmax > 0 ? nearest[static_cast<size_t>(std::clamp(place, 0.0f, 65535.0f))] : uint8_t{0};
    }
  }
}

int64_t encode_int8_row(const float* values, int64_t count, int8_t* codes, float& absmax) {
  const auto half = [&](int64_t i) { return half_to_float(float_to_half(values[i])); };
  absmax = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float value = half(i);
    if (!std::isfinite(value)) return i;
    absmax = std::max(absmax, std::abs(value));
  }
  const float factor = absmax > 0 ? 1.0f / absmax * 127.0f : 0.0f;
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<int8_t>(std::nearbyint(half(i) * factor));
  return count;
}

}  // namespace trl::io
