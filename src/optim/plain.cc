#include "optim/plain.h"

#include "tensor/counted.h"

namespace trl::optim::plain {

namespace {

at::Tensor wide(const at::Tensor& x) { return x.to(at::kFloat); }

// The gradient with weight decay as L2 regularization, and the weight in float32.
struct Start {
  at::Tensor p, g;
  Start(const Weights& w, double l2) : p(wide(w.value)), g(l2 == 0 ? w.grad : w.grad + l2 * p) {}
};

void finish(const Weights& weights, const at::Tensor& value) { store(value, weights.value, weights.keys); }

// base::counter_bits of every element, in the lower half of an int64.
at::Tensor random_bits(const at::Tensor& like, const Keys& keys) {
  constexpr int64_t kLow = 0xFFFFFFFF;
  const auto pieces = static_cast<int64_t>(keys.keys.size());
  at::Tensor low = at::empty({pieces, 1}, at::kLong), high = at::empty({pieces, 1}, at::kLong);
  for (int64_t i = 0; i < pieces; ++i) {
    low.data_ptr<int64_t>()[i] = keys.keys[static_cast<size_t>(i)].low;
    high.data_ptr<int64_t>()[i] = keys.keys[static_cast<size_t>(i)].high;
  }
  const at::Device device = like.device();
  const auto times = [](const at::Tensor& x, int64_t factor) { return (x * factor).bitwise_and_(kLow); };
  at::Tensor x = (at::arange(keys.piece, at::TensorOptions(device).dtype(at::kLong)) + low.to(device))
                     .bitwise_and_(kLow);
  x = times(x.bitwise_xor(x.bitwise_right_shift(16)), 0x7FEB352D);
  x = (x + high.to(device)).bitwise_and_(kLow);
  x = times(x.bitwise_xor(x.bitwise_right_shift(15)), 0x846CA68B);
  x = x.bitwise_xor(x.bitwise_right_shift(16));
  return x.flatten().narrow(0, 0, like.numel()).view(like.sizes());
}

}  // namespace

Weights weights_of(const Parameter& parameter, const tensor::Writing& values, double grad_scale,
                   const Common& common) {
  Weights weights;
  weights.value = *values;
  weights.grad = wide(parameter.gradient()) * static_cast<float>(grad_scale);
  weights.weight_decay = parameter.decay ? common.weight_decay : 0.0;
  return weights;
}

double l2_norm(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& x : tensors) norms.push_back(at::norm(x, 2, at::kDouble));
  return norms.empty() ? 0.0 : at::norm(at::stack(norms), 2).item<double>();
}

void store(const at::Tensor& value, at::Tensor to, const Keys& keys) {
  if (keys.keys.empty()) {
    to.copy_(value);
    return;
  }
  // What is added below the cut carries into the half that stays, with the probability of the part cut off.
  const at::Tensor bits = value.view(at::kInt).to(at::kLong).bitwise_and(int64_t{0xFFFFFFFF});
  const at::Tensor added = random_bits(to, keys).bitwise_right_shift(16);
  const at::Tensor cut = (bits + added).bitwise_and(int64_t{0xFFFF0000}).to(at::kInt).view(at::kFloat);
  to.copy_(at::where(value.isnan(), value, cut));
}

void update(Weights& weights, const Adam& step) {
  const Start s(weights, step.decoupled ? 0.0 : weights.weight_decay);
  const double keep = step.decoupled ? 1.0 - step.learning_rate * weights.weight_decay : 1.0;
  at::Tensor mean = wide(weights.state[0]), square = wide(weights.state[1]);
  mean = mean + step.rest1 * (s.g - mean);
  square = step.beta2 * square + step.rest2 * s.g * s.g;
  weights.state[0].copy_(mean);
  weights.state[1].copy_(square);
  if (step.amsgrad) {
    square = at::maximum(square, wide(weights.state[2]));
    weights.state[2].copy_(square);
  }
  finish(weights, s.p * keep - step.step_size * mean / (square.sqrt() / step.root_correction + step.epsilon));
}

void update(Weights& weights, const Sgd& step) {
  const Start s(weights, weights.weight_decay);
  at::Tensor direction = s.g;
  if (step.buffered) {
    const at::Tensor buffer = step.momentum * wide(weights.state[0]) + step.undamped * s.g;
    weights.state[0].copy_(buffer);
    direction = step.of_gradient * s.g + step.of_buffer * buffer;
  }
  finish(weights, s.p - step.learning_rate * direction);
}

void update(Weights& weights, const Rmsprop& step) {
  const Start s(weights, weights.weight_decay);
  size_t next = 0;
  const at::Tensor square = step.alpha * wide(weights.state[next]) + step.rest * s.g * s.g;
  weights.state[next++].copy_(square);
  at::Tensor variance = square;
  if (step.centered) {
    at::Tensor mean = wide(weights.state[next]);
    mean = mean + step.rest * (s.g - mean);
    weights.state[next++].copy_(mean);
    variance = square - mean * mean;
  }
  at::Tensor change = s.g / (variance.sqrt() + step.epsilon);
  if (step.buffered) {
    change = step.momentum * wide(weights.state[next]) + change;
    weights.state[next].copy_(change);
  }
  finish(weights, s.p - step.learning_rate * change);
}

void update(Weights& weights, const Adagrad& step) {
  const Start s(weights, weights.weight_decay);
  const at::Tensor sum = wide(weights.state[0]) + s.g * s.g;
  weights.state[0].copy_(sum);
  finish(weights, s.p - step.learning_rate * s.g / (sum.sqrt() + step.epsilon));
}

void update(Weights& weights, const Lion& step) {
  const Start s(weights, 0);
  const double keep = 1.0 - step.learning_rate * weights.weight_decay;
  const at::Tensor mean = wide(weights.state[0]);
  const at::Tensor direction = step.beta1 * mean + step.rest1 * s.g;
  weights.state[0].copy_(step.beta2 * mean + step.rest2 * s.g);
  finish(weights, s.p * keep - step.learning_rate * direction.sign());
}

}  // namespace trl::optim::plain
