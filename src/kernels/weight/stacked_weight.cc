#include "kernels/weight/stacked_weight.h"

#include <algorithm>

namespace trl::kernels {

namespace {

using EncodedPtr = std::shared_ptr<const tensor::Encoded>;

class StackedWeight final : public tensor::Encoded {
 public:
  StackedWeight(std::vector<int64_t> shape, std::vector<EncodedPtr> matrices)
      : Encoded(std::move(shape)), matrices_(std::move(matrices)), rows_(matrices_.front()->shape()[0]) {}

  std::string form() const override { return matrices_.front()->form(); }
  int64_t unit() const override { return matrices_.front()->unit(); }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    const auto size = static_cast<int64_t>(c10::elementSize(type));
    for (int64_t row = part.row, rows = 0; row < part.row + part.rows; row += rows) {
      const int64_t first = row % rows_;
      rows = std::min(rows_ - first, part.row + part.rows - row);
      matrices_[static_cast<size_t>(row / rows_)]->decode(
          {first, rows, part.column, part.columns}, type,
          static_cast<char*>(to) + (row - part.row) * stride * size, stride);
    }
  }

 private:
  const std::vector<EncodedPtr> matrices_;
  const int64_t rows_;  // in each matrix
};

}  // namespace

EncodedPtr stacked_weight(std::vector<int64_t> shape, std::vector<EncodedPtr> matrices) {
  return std::make_shared<StackedWeight>(std::move(shape), std::move(matrices));
}

}  // namespace trl::kernels
