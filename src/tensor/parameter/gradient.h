// The gradient that backward collects for one parameter.
#pragma once
#include <ATen/ATen.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

namespace trl::tensor {

// A sum that is stored in two parts: a bfloat16 with the upper bits of a float32, truncated, and the eight
// bits that follow. Together they are exact to 2^-16, and take three quarters of a float32's memory.
struct Split {
  at::Tensor high;
  at::Tensor low;  // bytes; undefined: `high` is the whole value
};
inline float joined(uint16_t high, uint8_t low) {
  return std::bit_cast<float>(static_cast<uint32_t>(high) << 16 | static_cast<uint32_t>(low) << 8);
}
void split(float value, uint16_t& high, uint8_t& low);  // rounds to nearest

// The first addition allocates memory. A bfloat16 sum that several nodes of a graph add to (a tied embedding
// and head) is collected in more bits until it is complete, and rounded once: in bfloat16 the small terms
// that are added last would be lost. The bits are float32's, or Split's if all that add support it and one
// backward makes all additions.
class Gradient {
 public:
  // type: kFloat or kBFloat16
  Gradient(std::vector<int64_t> shape, at::ScalarType type, at::Device device)
      : shape_(std::move(shape)), type_(type), device_(device) {}
  at::ScalarType type() const { return type_; }
  // Lends a buffer of this type and shape to add to. It stays: drop() zeroes it.
  void lend(at::Tensor buffer);
  const at::Tensor& value();  // its type is type(); zero if nothing was added
  void drop();

  int64_t uses = 0;       // uses that graphs have made and not yet ended
  bool in_parts = false;  // several backwards make the additions
  bool late = false;      // additions that can be recomputed are deferred until the next one arrives
  bool whole = false;     // all backwards of the step are done, until it is dropped
  std::function<void()> complete = {};

 private:
  friend class Use;
  at::Tensor& place();  // the tensor to add to: of type(), or wider
  Split split_place();  // the same for code that can add to a split sum
  Split parts(bool several);
  void add_waiting();
  void end_use();  // the last open use completes the sum
  at::Tensor zeros(at::ScalarType type) const;
  void round();

  const std::vector<int64_t> shape_;
  const at::ScalarType type_;
  const at::Device device_;
  bool lent_ = false;
  std::vector<std::function<void(const Split&)>> waiting_;
  at::Tensor sum_, low_, wide_;  // until round(); low_: low part of sum_; wide_: to be added to sum_
};

}  // namespace trl::tensor
