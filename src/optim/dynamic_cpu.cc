// 8-bit codes of the dynamic types. A decade of them has equal steps, so the nearest code follows from a
// product and a sum; only the five upper decades contain points of the grid that values are rounded to.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "io/four_bit.h"
#include "optim/each_isa_cpu.h"
#include "optim/update.h"

namespace trl::optim {

namespace {

// bitsandbytes rounds the points of the grid to float32, which moves the one of 2775 / kSteps across an edge.
constexpr double kRounding = 4e-5;
constexpr int kDecades = 5;         // from 1e-5 up
constexpr float kSteps = 65535.0f;  // steps of the grid from -1 to 1; values are counted in half steps
constexpr int kOne = 255;           // the code of 1
constexpr int kMirror = 254;        // the codes of x and -x add up to it

// The code of a non-negative value m / kSteps is min(m * slope + offset, last), truncated to an integer.
struct Decades {
  std::array<float, kDecades> from, slope, offset, last;
  float one;  // the first value of code kOne
};

Decades decades_of(bool with_sign) {
  const std::array<float, 256>& code = with_sign ? io::dynamic_code() : io::unsigned_dynamic_code();
  const auto middle = [&](int lower) {
    return (static_cast<double>(code[static_cast<size_t>(lower)]) +
            static_cast<double>(code[static_cast<size_t>(lower) + 1])) /
           2 * double{kSteps};
  };
  Decades decades{};
  for (int d = 0; d < kDecades; ++d) {
    const int power = d + 7 - kDecades;
    const int steps = (with_sign ? 1 : 2) << power;
    const int first = with_sign ? 127 + steps : steps - 1;  // the code of the decade's first step
    const double begin = std::pow(10.0, power - 7) * double{kSteps}, step = 9 * begin / steps;
    const auto i = static_cast<size_t>(d);
    decades.from[i] = static_cast<float>(middle(first - 1));
    decades.slope[i] = static_cast<float>(1 / step);
    decades.offset[i] = static_cast<float>(first - begin / step - kRounding);
    decades.last[i] = static_cast<float>(first + steps - 1);
  }
  decades.one = static_cast<float>(middle(kOne - 1));
  return decades;
}

TRL_INLINE int code_of(float m, const Decades& d) {
  float slope = d.slope[0], offset = d.offset[0], last = d.last[0];
  for (size_t i = 1; i < kDecades; ++i) {
    const bool above = m > d.from[i];
    slope = above ? d.slope[i] : slope;
    offset = above ? d.offset[i] : offset;
    last = above ? d.last[i] : last;
  }
  const float code = m * slope + offset;
  return static_cast<int>(code < last ? code : last);
}

// Compares bits instead of floats, with the same result, because no compiler vectorises the comparison of
// floats.
TRL_INLINE float largest_magnitude(const float* values, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    bits &= 0x7FFFFFFFu;
    most = bits > most ? bits : most;
  }
  float out;
  std::memcpy(&out, &most, sizeof out);
  return out;
}

template <bool kSign>
TRL_INLINE void encode_with(const float* values, int64_t count, const Decades& decades, uint8_t* codes,
                            float* absmax) {
  const Decades d = decades;
  const float most = largest_magnitude(values, count);
  const float inverse = std::fmin(1.0f / most, std::numeric_limits<float>::max());
  const int any = most > 0 ? -1 : 0;  // a block of zeros has codes of 0
  constexpr float kLowest = kSign ? -1.0f : 0.0f;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    float y = values[i] * inverse;
    y = y > kLowest ? y : kLowest;  // replaces a NaN, too
    y = y < 1.0f ? y : 1.0f;
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): not negative; std::lround is not vectorised
    const int m = 2 * static_cast<int>((y + 1.0f) * (kSteps / 2) + 0.5f) - static_cast<int>(kSteps);
    const auto size = static_cast<float>(m < 0 ? -m : m);
    const int code = code_of(size, d);
    const int positive = size > d.one ? kOne : code;
    codes[i] = static_cast<uint8_t>((kSign && m < 0 ? kMirror - code : positive) & any);
  }
  *absmax = most;
}

}  // namespace

const float* code_values(Codec codec) {
  return codec == Codec::dynamic ? io::dynamic_code().data() : io::unsigned_dynamic_code().data();
}

void encode(const float* values, int64_t count, Codec codec, uint8_t* codes, float* absmax) {
  static const Decades with_sign = decades_of(true), without = decades_of(false);
  run([=] {
    if (codec == Codec::dynamic)
      encode_with<true>(values, count, with_sign, codes, absmax);
    else
      encode_with<false>(values, count, without, codes, absmax);
  });
}

}  // namespace trl::optim
