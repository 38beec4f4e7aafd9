#include "tensor/parameter/gradient.h"

#include <cmath>

#include "base/arithmetic/bfloat16.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::tensor {

namespace {

// Calls body(high, low, index) for each element of a split sum on the CPU.
template <typename Body>
void each(const at::Tensor& high, const at::Tensor& low, const Body& body) {
  auto* const h = static_cast<uint16_t*>(high.data_ptr());
  const uint8_t* const l = low.data_ptr<uint8_t>();
  parallel_for(high.numel(), 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(h[i], l[i], i);
  });
}

void round_to_high(uint16_t& high, uint8_t low, int64_t) { high = base::to_bf16(joined(high, low)).bits; }

}  // namespace

void split(float value, uint16_t& high, uint8_t& low) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = std::isnan(value) ? bits | 0x400000u : bits + 0x7f + ((bits >> 8) & 1);
  high = static_cast<uint16_t>(rounded >> 16);
  low = static_cast<uint8_t>(rounded >> 8);
}

at::Tensor Gradient::zeros(at::ScalarType type) const {
  return tensor::zeros(shape_, type, MemoryKind::gradients, device_);
}

const at::Tensor& Gradient::value() {
  add_waiting();
  round();
  if (!sum_.defined()) sum_ = zeros(type_);
  return sum_;
}

void Gradient::lend(at::Tensor buffer) {
  sum_ = std::move(buffer);
  lent_ = true;
}

void Gradient::drop() {
  in_parts = whole = false;
  waiting_.clear();
  low_ = wide_ = at::Tensor();
  if (lent_)
    tensor::in_parts([](const at::Tensor& sum) { sum.zero_(); }, sum_);
  else
    sum_ = at::Tensor();
}

void Gradient::add_waiting() {
  for (const auto& add : std::exchange(waiting_, {})) add(parts(true));
}

at::Tensor& Gradient::place() {
  add_waiting();
  if (wide_.defined()) return wide_;
  if (type_ != at::kBFloat16 || (uses <= 1 && !low_.defined())) {
    if (!sum_.defined()) sum_ = zeros(type_);
    return sum_;
  }
  wide_ = zeros(at::kFloat);
  if (!low_.defined()) return wide_;
  auto* const all = wide_.data_ptr<float>();
  each(sum_, low_,
       [all](uint16_t& high, uint8_t low, int64_t i) { all[i] = joined(std::exchange(high, 0), low); });
  low_ = at::Tensor();
  return wide_;
}

Split Gradient::split_place() {
  add_waiting();
  return parts(uses > 1);
}

Split Gradient::parts(bool several) {
  if (wide_.defined() || (in_parts && several)) return {place(), {}};
  if (!sum_.defined()) sum_ = zeros(type_);
  if (type_ == at::kBFloat16 && several && !low_.defined()) low_ = zeros(at::kByte);
  return {sum_, low_};
}

void Gradient::round() {
  if (low_.defined()) each(sum_, low_, round_to_high);
  low_ = at::Tensor();
  if (!wide_.defined()) return;
  if (sum_.defined()) {
    const auto add = [](const at::Tensor& sum, const at::Tensor& more) { sum.add_(more); };  // in float32
    tensor::in_parts(add, sum_, wide_);
  } else {
    sum_ = tensor::empty(shape_, type_, MemoryKind::gradients, device_);
    copy_in_parts(sum_, wide_);
  }
  wide_ = at::Tensor();
}

void Gradient::end_use() {
  if (--uses > 0) return;
  add_waiting();
  round();
  if (complete) complete();
}

}  // namespace trl::tensor
