// Values that are stored in quantised blocks, not as numbers of one type: the frozen weights of a base model.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trl::tensor {

// A part of a matrix; rows are counted over all matrices of a stack.
struct Part2d {
  int64_t row, rows, column, columns;
};

// Immutable, so any number of threads may decode it at once.
class Encoded {
 public:
  virtual ~Encoded() = default;
  at::IntArrayRef shape() const { return shape_; }  // [rows, columns], or [matrices, rows, columns]
  int64_t width() const { return shape_.back(); }
  virtual std::string form() const = 0;  // for messages: "NF4"
  // A part begins at a multiple of this many columns, and ends at one or at the end of the row.
  virtual int64_t unit() const = 0;
  // Decodes the part into `type` (kFloat, or kBFloat16: rounded once from float32), in rows of `stride`
  // elements.
  virtual void decode(const Part2d& part, at::ScalarType type, void* to, int64_t stride) const noexcept = 0;

 protected:
  explicit Encoded(std::vector<int64_t> shape) : shape_(std::move(shape)) {}

 private:
  const std::vector<int64_t> shape_;
};

}  // namespace trl::tensor
