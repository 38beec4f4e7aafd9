// Elementwise updates: one sweep for all, and a rule for each.
#include "optim/update.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "optim/each_isa_cpu.h"

namespace trl::optim {

namespace {

// An array of an update: each element is read and written once, as float32.
template <typename T>
struct Numbers {
  T* at;
  TRL_INLINE float get(int64_t i) const { return to_float(at[i]); }
  TRL_INLINE void put(int64_t i, float value) const { base::put(at + i, value); }
  Numbers from(int64_t begin) const { return {at + begin}; }
};
struct Rounded {  // stochastically
  bf16* at;
  base::CounterKey key;
  uint32_t first;  // the index of the first element's draw
  TRL_INLINE float get(int64_t i) const { return to_float(at[i]); }
  TRL_INLINE void put(int64_t i, float value) const {
    put_random(at + i, value, key, first + static_cast<uint32_t>(i));
  }
  Rounded from(int64_t begin) const { return {at + begin, key, first + static_cast<uint32_t>(begin)}; }
};

// A block of codes; new values wait in `next` until the block is complete.
struct Coded {
  const uint8_t* codes;
  const float* values;
  float absmax;
  float* next;
  TRL_INLINE float get(int64_t i) const { return values[codes[i]] * absmax; }
  TRL_INLINE void put(int64_t i, float value) const { next[i] = value; }
};

template <typename T>
Numbers<T> numbers(const Span& span) {
  return {static_cast<T*>(span.data)};
}

// rule(p, g, s): returns the new value of a weight p with gradient g; s: its state, changed in place.
template <typename Rule, typename Value, typename Grad, typename State>
TRL_INLINE void apply(Rule rule, Value value, Grad grad, std::array<State, 3> state, float grad_scale,
                      int64_t count) {
  constexpr int kStates = Rule::kStates;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    float s[3] = {};
    if constexpr (kStates > 0) s[0] = state[0].get(i);
    if constexpr (kStates > 1) s[1] = state[1].get(i);
    if constexpr (kStates > 2) s[2] = state[2].get(i);
    const float p = rule(value.get(i), grad.get(i) * grad_scale, s);
    if constexpr (kStates > 0) state[0].put(i, s[0]);
    if constexpr (kStates > 1) state[1].put(i, s[1]);
    if constexpr (kStates > 2) state[2].put(i, s[2]);
    value.put(i, p);
  }
}

template <typename T, typename Rule, typename Value, typename Grad>
void sweep_numbers(const Slice& slice, const Rule& rule, Value value, Grad grad) {
  const std::array<Numbers<T>, 3> state = {numbers<T>(slice.state[0]), numbers<T>(slice.state[1]),
                                           numbers<T>(slice.state[2])};
  run([&] { apply(rule, value, grad, state, slice.grad_scale, slice.count); });
}

template <typename Rule, typename Value, typename Grad>
void sweep_codes(const Slice& slice, const Rule& rule, Value value, Grad grad) {
  constexpr size_t kStates = Rule::kStates;
  alignas(64) float next[kStates][kBlock];
  for (int64_t begin = 0; begin < slice.count; begin += kBlock) {
    const int64_t count = std::min(kBlock, slice.count - begin);
    std::array<uint8_t*, 3> codes = {};
    std::array<Coded, 3> state = {};
    for (size_t i = 0; i < kStates; ++i) {
      const Span& span = slice.state[i];
      codes[i] = static_cast<uint8_t*>(span.data) + begin;
      state[i] = {codes[i], code_values(span.codec), span.absmax[begin / kBlock], next[i]};
    }
    run([&] { apply(rule, value.from(begin), grad.from(begin), state, slice.grad_scale, count); });
    for (size_t i = 0; i < kStates; ++i) {
      const Span& span = slice.state[i];
      encode(next[i], count, span.codec, codes[i], span.absmax + begin / kBlock);
    }
  }
}

template <typename Rule, typename Value, typename Grad>
void sweep_with(const Slice& slice, const Rule& rule, Value value, Grad grad) {
  const Codec codec = slice.state[0].codec;
  if constexpr (Rule::kAnyState) {
    if (is_coded(codec)) return sweep_codes(slice, rule, value, grad);
  }
  constexpr bool kWide = std::is_same_v<Value, Numbers<float>>;
  if constexpr (kWide || Rule::kAnyState) {
    if (kWide || codec == Codec::f32) return sweep_numbers<float>(slice, rule, value, grad);
  }
  if constexpr (!kWide) sweep_numbers<bf16>(slice, rule, value, grad);
}

template <typename Rule, typename Value>
void sweep_of(const Slice& slice, const Rule& rule, Value value) {
  if (slice.grad.codec == Codec::f32)
    sweep_with(slice, rule, value, numbers<const float>(slice.grad));
  else
    sweep_with(slice, rule, value, numbers<const bf16>(slice.grad));
}

template <typename Rule>
void sweep(const Slice& slice, const Rule& rule) {
  if (slice.value.codec == Codec::f32) return sweep_of(slice, rule, numbers<float>(slice.value));
  if (!slice.stochastic) return sweep_of(slice, rule, numbers<bf16>(slice.value));
  sweep_of(slice, rule, Rounded{static_cast<bf16*>(slice.value.data), slice.key, 0});
}

float kept(double learning_rate, double weight_decay) {
  return static_cast<float>(1.0 - learning_rate * weight_decay);
}

// kAnyState: states may also be float32 with bfloat16 weights, or codes; else they have the type of the
// weight.
template <bool kAmsgrad>
struct AdamRule {
  static constexpr bool kAnyState = !kAmsgrad;
  static constexpr int kStates = kAmsgrad ? 3 : 2;
  Adam step;
  float keep, l2;
  TRL_INLINE float operator()(float p, float g, float* s) const {
    g += l2 * p;
    s[0] = s[0] + step.rest1 * (g - s[0]);
    s[1] = step.beta2 * s[1] + step.rest2 * g * g;
    float square = s[1];
    if constexpr (kAmsgrad) square = s[2] = s[1] > s[2] ? s[1] : s[2];
    return p * keep - step.step_size * s[0] / (std::sqrt(square) / step.root_correction + step.epsilon);
  }
};

template <bool kBuffered>
struct SgdRule {
  static constexpr bool kAnyState = false;
  static constexpr int kStates = kBuffered ? 1 : 0;
  Sgd step;
  float l2;
  TRL_INLINE float operator()(float p, float g, float* s) const {
    g += l2 * p;
    if constexpr (!kBuffered) return p - step.learning_rate * g;
    s[0] = step.momentum * s[0] + step.undamped * g;
    return p - step.learning_rate * (step.of_gradient * g + step.of_buffer * s[0]);
  }
};

template <bool kCentered, bool kBuffered>
struct RmspropRule {
  static constexpr bool kAnyState = !kCentered && !kBuffered;
  static constexpr int kStates = 1 + kCentered + kBuffered;
  Rmsprop step;
  float l2;
  TRL_INLINE float operator()(float p, float g, float* s) const {
    g += l2 * p;
    s[0] = step.alpha * s[0] + step.rest * g * g;
    float variance = s[0];
    if constexpr (kCentered) {
      s[1] = s[1] + step.rest * (g - s[1]);
      variance -= s[1] * s[1];
    }
    const float change = g / (std::sqrt(variance) + step.epsilon);
    if constexpr (!kBuffered) return p - step.learning_rate * change;
    float& buffer = s[1 + kCentered];
    buffer = step.momentum * buffer + change;
    return p - step.learning_rate * buffer;
  }
};

struct AdagradRule {
  static constexpr bool kAnyState = false;
  static constexpr int kStates = 1;
  Adagrad step;
  float l2;
  TRL_INLINE float operator()(float p, float g, float* s) const {
    g += l2 * p;
    s[0] += g * g;
    return p - step.learning_rate * g / (std::sqrt(s[0]) + step.epsilon);
  }
};

struct LionRule {
  static constexpr bool kAnyState = true;
  static constexpr int kStates = 1;
  Lion step;
  float keep, learning_rate;
  TRL_INLINE float operator()(float p, float g, float* s) const {
    const float direction = step.beta1 * s[0] + step.rest1 * g;
    s[0] = step.beta2 * s[0] + step.rest2 * g;
    const float sign = (direction > 0 ? 1.0f : 0.0f) - (direction < 0 ? 1.0f : 0.0f);
    return p * keep - learning_rate * sign;
  }
};

struct AdemamixRule {
  static constexpr bool kAnyState = true;
  static constexpr int kStates = 3;
  Ademamix step;
  float keep, learning_rate;
  TRL_INLINE float operator()(float p, float g, float* s) const {
    s[0] = step.beta1 * s[0] + step.rest1 * g;
    s[1] = step.beta3 * s[1] + step.rest3 * g;
    s[2] = step.beta2 * s[2] + step.rest2 * g * g;
    const float direction = s[0] / step.correction1 + step.alpha * s[1];
    return p * keep - learning_rate * (direction / (std::sqrt(s[2]) / step.root_correction + step.epsilon));
  }
};

}  // namespace

Slice part_of(const Slice& slice, int64_t begin, int64_t count) {
  const auto move = [begin](Span& span) {
    if (span.data != nullptr) span.data = static_cast<char*>(span.data) + begin * element_size(span.codec);
    if (span.absmax != nullptr) span.absmax += begin / kBlock;
  };
  Slice part = slice;
  part.count = count;
  move(part.value);
  move(part.grad);
  for (Span& state : part.state) move(state);
  return part;
}

void update(const Slice& slice, const Adam& step) {
  const float keep = step.decoupled ? kept(step.learning_rate, slice.weight_decay) : 1.0f;
  const float l2 = step.decoupled ? 0.0f : static_cast<float>(slice.weight_decay);
  if (step.amsgrad) return sweep(slice, AdamRule<true>{step, keep, l2});
  sweep(slice, AdamRule<false>{step, keep, l2});
}

void update(const Slice& slice, const Sgd& step) {
  const float l2 = static_cast<float>(slice.weight_decay);
  if (step.buffered) return sweep(slice, SgdRule<true>{step, l2});
  sweep(slice, SgdRule<false>{step, l2});
}

void update(const Slice& slice, const Rmsprop& step) {
  const float l2 = static_cast<float>(slice.weight_decay);
  if (step.centered && step.buffered) return sweep(slice, RmspropRule<true, true>{step, l2});
  if (step.centered) return sweep(slice, RmspropRule<true, false>{step, l2});
  if (step.buffered) return sweep(slice, RmspropRule<false, true>{step, l2});
  sweep(slice, RmspropRule<false, false>{step, l2});
}

void update(const Slice& slice, const Adagrad& step) {
  sweep(slice, AdagradRule{step, static_cast<float>(slice.weight_decay)});
}

void update(const Slice& slice, const Lion& step) {
  sweep(slice,
        LionRule{step, kept(step.learning_rate, slice.weight_decay), static_cast<float>(step.learning_rate)});
}

void update(const Slice& slice, const Ademamix& step) {
  sweep(slice, AdemamixRule{step, kept(step.learning_rate, slice.weight_decay),
                            static_cast<float>(step.learning_rate)});
}

}  // namespace trl::optim
