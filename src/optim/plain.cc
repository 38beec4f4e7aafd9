#include "optim/plain.h"

#include "tensor/memory/counted.h"

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

at::Tensor own_norm(const at::Tensor& x) { return at::norm(x, 2, at::kDouble); }

double norm_of(const std::vector<at::Tensor>& norms) {
  return norms.empty() ? 0.0 : at::norm(at::stack(norms), 2).item<double>();
}

double l2_norm(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& x : tensors) norms.push_back(own_norm(x));
  return norm_of(norms);
}

void store(const at::Tensor& value, at::Tensor to, const Keys& keys) {
  if (keys.keys.empty()) {
    to.copy_(value);
    return;
  }
  // Adding random bits below the cut carries into the remaining half with the probability of the part that is
  // cut off.
  const at::Tensor bits = value.view(at::kInt).to(at::kLong).bitwise_and(int64_t{0xFFFFFFFF});
  const at::Tensor added = random_bits(to, keys).bitwise_right_shift(16);
  const at::Tensor cut = (bits + added).bitwise_and(int64_t{0xFFFF0000}).to(at::kInt).view(at::kFloat);
  to.copy_(at::where(value.isnan(), value, cut));
}

void update(Weights& weights, const Adam& step) {
  const Start s(weights, step.decoupled ? 0.0 : weights.weight_decay);
  const double keep = step.decoupled ? 1.0 - step.learning_rate * weights.weight_decay : 1.0;
  at::Tensor mean = weights.state[0].read(), square = weights.state[1].read();
  mean = mean + step.rest1 * (s.g - mean);
  square = step.beta2 * square + step.rest2 * s.g * s.g;
  weights.state[0].write(mean);
  weights.state[1].write(square);
  if (step.amsgrad) {
    square = at::maximum(square, weights.state[2].read());
    weights.state[2].write(square);
  }
  finish(weights, s.p * keep - step.step_size * mean / (square.sqrt() / step.root_correction + step.epsilon));
}

void update(Weights& weights, const Sgd& step) {
  const Start s(weights, weights.weight_decay);
  at::Tensor direction = s.g;
  if (step.buffered) {
    const at::Tensor buffer = step.momentum * weights.state[0].read() + step.undamped * s.g;
    weights.state[0].write(buffer);
    direction = step.of_gradient * s.g + step.of_buffer * buffer;
  }
  finish(weights, s.p - step.learning_rate * direction);
}

void update(Weights& weights, const Rmsprop& step) {
  const Start s(weights, weights.weight_decay);
  size_t next = 0;
  const at::Tensor square = step.alpha * weights.state[next].read() + step.rest * s.g * s.g;
  weights.state[next++].write(square);
  at::Tensor variance = square;
  if (step.centered) {
    at::Tensor mean = weights.state[next].read();
    mean = mean + step.rest * (s.g - mean);
    weights.state[next++].write(mean);
    variance = square - mean * mean;
  }
  at::Tensor change = s.g / (variance.sqrt() + step.epsilon);
  if (step.buffered) {
    change = step.momentum * weights.state[next].read() + change;
    weights.state[next].write(change);
  }
  finish(weights, s.p - step.learning_rate * change);
}

void update(Weights& weights, const Adagrad& step) {
  const Start s(weights, weights.weight_decay);
  const at::Tensor sum = weights.state[0].read() + s.g * s.g;
  weights.state[0].write(sum);
  finish(weights, s.p - step.learning_rate * s.g / (sum.sqrt() + step.epsilon));
}

void update(Weights& weights, const Lion& step) {
  const Start s(weights, 0);
  const double keep = 1.0 - step.learning_rate * weights.weight_decay;
  const at::Tensor mean = weights.state[0].read();
  const at::Tensor direction = step.beta1 * mean + step.rest1 * s.g;
  weights.state[0].write(step.beta2 * mean + step.rest2 * s.g);
  finish(weights, s.p * keep - step.learning_rate * direction.sign());
}

void update(Weights& weights, const Ademamix& step) {
  const Start s(weights, 0);
  const double keep = 1.0 - step.learning_rate * weights.weight_decay;
  const at::Tensor fast = step.beta1 * weights.state[0].read() + step.rest1 * s.g,
                   slow = step.beta3 * weights.state[1].read() + step.rest3 * s.g,
                   square = step.beta2 * weights.state[2].read() + step.rest2 * s.g * s.g;
  weights.state[0].write(fast);
  weights.state[1].write(slow);
  weights.state[2].write(square);
  const at::Tensor direction = fast / step.correction1 + step.alpha * slow;
  finish(weights, s.p * keep - step.learning_rate *
                                   (direction / (square.sqrt() / step.root_correction + step.epsilon)));
}

namespace {

at::Tensor code_tensor(Codec codec, at::Device device) {
  const at::Tensor values = at::empty({256}, at::kFloat);
  std::memcpy(values.data_ptr(), code_values(codec), 256 * sizeof(float));
  return values.to(device);
}

// Splits x into blocks, the last of them padded with zeros.
at::Tensor in_blocks(const at::Tensor& x) {
  const at::Tensor flat = x.flatten();
  const int64_t rest = (kBlock - flat.numel() % kBlock) % kBlock;
  return at::constant_pad_nd(flat, {0, rest}).view({-1, kBlock});
}
at::Tensor out_of_blocks(const at::Tensor& blocks, const at::Tensor& like) {
  return blocks.flatten().narrow(0, 0, like.numel()).view(like.sizes());
}

}  // namespace

at::Tensor decode(const at::Tensor& codes, const at::Tensor& absmax, Codec codec) {
  const at::Tensor values =
      code_tensor(codec, codes.device()).index_select(0, in_blocks(codes).flatten().to(at::kLong));
  return out_of_blocks(values.view({-1, kBlock}) * absmax.unsqueeze(1), codes);
}

void encode(const at::Tensor& values, Codec codec, at::Tensor codes, at::Tensor absmax) {
  const at::Tensor blocks = in_blocks(values), largest = blocks.abs().amax(1);
  const at::Tensor inverse = largest.reciprocal().clamp_max(std::numeric_limits<float>::max()).unsqueeze(1);
  const double lowest = codec == Codec::dynamic ? -1.0 : 0.0;
  const at::Tensor grid = ((blocks * inverse).clamp(lowest, 1.0) + 1.0) * 32767.5 + 0.5;
  const at::Tensor code = code_tensor(codec, values.device());
  const at::Tensor middles = (code.narrow(0, 0, 255) + code.narrow(0, 1, 255)) / 2;
  const at::Tensor nearest = at::bucketize(grid.floor() / 65535.0 * 2.0 - 1.0, middles);
  codes.copy_(out_of_blocks(nearest * largest.gt(0).unsqueeze(1), codes));
  absmax.copy_(largest);
}

}  // namespace trl::optim::plain
