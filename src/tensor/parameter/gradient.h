// What backward collects for one parameter.
#pragma once
#include <ATen/ATen.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

namespace trl::tensor {

// A sum that is stored in two parts: a bfloat16 with the upper bits of a float32, cut, and the eight bits
// that follow. Together they are exact to 2^-16, and as far as they are added to in bfloat16's place, they
// take three quarters of a float32's memory.
struct Split {
  at::Tensor high;
  at::Tensor low;  // bytes; undefined: high stands alone
};
inline float joined(uint16_t high, uint8_t low) {
  return std::bit_cast<float>(static_cast<uint32_t>(high) << 16 | static_cast<uint32_t>(low) << 8);
}
void split(float value, uint16_t& high, uint8_t& low);  // rounded to nearest

// Memory is taken by the first addition. A bfloat16 sum that several nodes of a graph add to (a tied
// embedding and head) is collected in more bits until it is complete, and rounded once: in bfloat16 the small
// terms that come last would be lost. The bits are float32's, or Split's where all that add know of it and
// one backward brings them all.
class Gradient {
 public:
  // type: kFloat or kBFloat16
  Gradient(std::vector<int64_t> shape, at::ScalarType type, at::Device device)
      : shape_(std::move(shape)), type_(type), device_(device) {}
  at::ScalarType type() const { return type_; }
  void lend(at::Tensor buffer);  // to be added to, of this type and shape; it stays
  const at::Tensor& value();     // of type(); zero where nothing was added
  void drop();

  int64_t uses = 0;       // that graphs have made and not yet ended
  bool in_parts = false;  // several backwards bring what is added
  bool late = false;      // what can be added later, by computing it once more, waits for the next addition
  std::function<void()> complete = {};

 private:
  friend class Use;
  at::Tensor& place();  // to add to: of type(), or wider
  Split split_place();  // the same for those who can add to a split sum
  Split parts(bool several);
  void add_waiting();
  void end_use();  // the last that is open completes the sum
  at::Tensor zeros(at::ScalarType type) const;
  void round();

  const std::vector<int64_t> shape_;
  const at::ScalarType type_;
  const at::Device device_;
  bool lent_ = false;
  std::vector<std::function<void(const Split&)>> waiting_;
  at::Tensor sum_, low_, wide_;  // low_: of sum_, wide_: to be added to it; until round()
};

}  // namespace trl::tensor
