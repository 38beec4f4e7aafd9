// Updates that treat each element by itself: one sweep for all, and a rule for each.
#include "optim/update.h"

#include <cmath>

#include "optim/isa_cpu.h"

namespace trl::optim {

namespace {

// rule(p, g, s): the new value of a weight p with gradient g; s: its state, changed in place.
template <bool kRandom, typename T, typename Rule>
TRL_INLINE void sweep(const Slice& slice, Rule rule) {
  constexpr int kStates = Rule::kStates;
  T* const value = static_cast<T*>(slice.value);
  const T* const grad = static_cast<const T*>(slice.grad);
  T* const s0 = static_cast<T*>(slice.state[0]);
  T* const s1 = static_cast<T*>(slice.state[1]);
  T* const s2 = static_cast<T*>(slice.state[2]);
  const float grad_scale = slice.grad_scale;
  const base::CounterKey key = slice.key;
  const int64_t count = slice.count;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    float s[3] = {};
    if constexpr (kStates > 0) s[0] = load(s0[i]);
    if constexpr (kStates > 1) s[1] = load(s1[i]);
    if constexpr (kStates > 2) s[2] = load(s2[i]);
    const float p = rule(load(value[i]), load(grad[i]) * grad_scale, s);
    if constexpr (kStates > 0) store(s0[i], s[0]);
    if constexpr (kStates > 1) store(s1[i], s[1]);
    if constexpr (kStates > 2) store(s2[i], s[2]);
    if constexpr (kRandom) {
      store_random(value[i], p, key, static_cast<uint32_t>(i));
    } else {
      store(value[i], p);
    }
  }
}

template <typename Rule>
void sweep(const Slice& slice, const Rule& rule) {
  if (!slice.bf16) {
    run([&] { sweep<false, float>(slice, rule); });
  } else if (slice.stochastic) {
    run([&] { sweep<true, uint16_t>(slice, rule); });
  } else {
    run([&] { sweep<false, uint16_t>(slice, rule); });
  }
}

float kept(double learning_rate, double weight_decay) {
  return static_cast<float>(1.0 - learning_rate * weight_decay);
}

template <bool kAmsgrad>
struct AdamRule {
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

}  // namespace

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

}  // namespace trl::optim
