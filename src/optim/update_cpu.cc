// The update loops. One inlined body; each entry point is that body compiled for an instruction set.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/isa.h"
#include "optim/update.h"

namespace trl::optim {

namespace {

using base::Isa;
using base::isa;

#define TRL_INLINE inline __attribute__((always_inline))

TRL_INLINE float load(float x) { return x; }
TRL_INLINE float load(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

TRL_INLINE void store(float& out, float value) { out = value; }
TRL_INLINE void store(uint16_t& out, float value) {  // to nearest, ties to even; NaN stays one
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  out = static_cast<uint16_t>(value == value ? rounded : (bits >> 16) | 0x40u);
}

template <typename T>
TRL_INLINE void adamw_body(T* __restrict value, const T* __restrict grad, T* __restrict m, T* __restrict v,
                           int64_t count, const AdamwStep& step) {
  const AdamwStep s = step;
  for (int64_t i = 0; i < count; ++i) {
    const float g = load(grad[i]) * s.grad_scale;
    const float old = load(m[i]);
    const float mean = old + s.first * (g - old);
    const float square = s.beta2 * load(v[i]) + s.second * g * g;
    const float p = load(value[i]) * s.keep;
    store(m[i], mean);
    store(v[i], square);
    store(value[i], p - s.step_size * mean / (std::sqrt(square) / s.root_correction + s.epsilon));
  }
}

constexpr int kLanes = 16;  // independent sums, added up in order: the same result for every vector width

template <typename T>
TRL_INLINE double sum_squares_body(const T* x, int64_t count) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = load(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(load(x[i])) * static_cast<double>(load(x[i]));
  for (double lane : lanes) sum += lane;
  return sum;
}

#if TRL_CPU_VARIANTS
#define TRL_AVX2 __attribute__((target("avx2")))
#define TRL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,prefer-vector-width=512")))
#else
#define TRL_AVX2
#define TRL_AVX512
#endif

template <typename T>
TRL_AVX512 void adamw_avx512(T* value, const T* grad, T* m, T* v, int64_t count, const AdamwStep& step) {
  adamw_body(value, grad, m, v, count, step);
}
template <typename T>
TRL_AVX2 void adamw_avx2(T* value, const T* grad, T* m, T* v, int64_t count, const AdamwStep& step) {
  adamw_body(value, grad, m, v, count, step);
}
template <typename T>
void adamw_any(T* value, const T* grad, T* m, T* v, int64_t count, const AdamwStep& step) {
  switch (isa()) {
    case Isa::avx512bf16:
    case Isa::avx512:
      return adamw_avx512(value, grad, m, v, count, step);
    case Isa::avx2:
      return adamw_avx2(value, grad, m, v, count, step);
    case Isa::generic:
      return adamw_body(value, grad, m, v, count, step);
  }
}

template <typename T>
TRL_AVX512 double sum_squares_avx512(const T* x, int64_t count) {
  return sum_squares_body(x, count);
}
template <typename T>
TRL_AVX2 double sum_squares_avx2(const T* x, int64_t count) {
  return sum_squares_body(x, count);
}
template <typename T>
double sum_squares_any(const T* x, int64_t count) {
  switch (isa()) {
    case Isa::avx512bf16:
    case Isa::avx512:
      return sum_squares_avx512(x, count);
    case Isa::avx2:
      return sum_squares_avx2(x, count);
    case Isa::generic:
      break;
  }
  return sum_squares_body(x, count);
}

}  // namespace

void adamw(float* value, const float* grad, float* m, float* v, int64_t count, const AdamwStep& step) {
  adamw_any(value, grad, m, v, count, step);
}
void adamw(uint16_t* value, const uint16_t* grad, uint16_t* m, uint16_t* v, int64_t count,
           const AdamwStep& step) {
  adamw_any(value, grad, m, v, count, step);
}
double sum_squares(const float* x, int64_t count) { return sum_squares_any(x, count); }
double sum_squares(const uint16_t* x, int64_t count) { return sum_squares_any(x, count); }

}  // namespace trl::optim
