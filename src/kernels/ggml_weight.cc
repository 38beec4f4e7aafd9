#include "kernels/ggml_weight.h"

#include <array>

#include "kernels/op.h"

namespace trl::kernels {

namespace {

class GgmlWeight final : public tensor::Encoded {
 public:
  GgmlWeight(std::shared_ptr<const io::Gguf> file, const io::GgufTensor& tensor,
             std::function<int64_t(int64_t)> row)
      : Encoded(tensor.shape), file_(std::move(file)), tensor_(tensor), row_(std::move(row)) {}

  std::string form() const override { return tensor_.type_name; }
  int64_t unit() const override { return block(); }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    const int64_t size = type == at::kBFloat16 ? 2 : 4;
    for (int64_t r = 0; r < part.rows; ++r) {
      const int64_t row = row_ ? row_(part.row + r) : part.row + r;
      decode_row(row, part.column, part.columns, type, static_cast<char*>(to) + r * stride * size);
    }
  }

 private:
  int64_t block() const { return std::max<int64_t>(1, io::find_ggml_type(tensor_.type)->block); }

  // Whole blocks, of which the row begins and ends with one; what was not asked for is left out.
  void decode_row(int64_t row, int64_t column, int64_t columns, at::ScalarType type,
                  char* to) const noexcept {
    std::array<float, 1024> values;
    const int64_t size = type == at::kBFloat16 ? 2 : 4, end = column + columns;
    for (int64_t at = column / block() * block(); at < end; at += std::ssize(values)) {
      const int64_t count = std::min(round_up(end - at, block()), std::ssize(values));
      io::dequantize(tensor_, row * width() + at, count, values.data());
      const int64_t first = std::max(column, at), last = std::min(end, at + count);
      cpu().convert(values.data() + (first - at), Type::f32, to + (first - column) * size,
                    type == at::kBFloat16 ? Type::bf16 : Type::f32, last - first);
    }
  }

  const std::shared_ptr<const io::Gguf> file_;
  const io::GgufTensor tensor_;
  const std::function<int64_t(int64_t)> row_;
};

}  // namespace

std::shared_ptr<const tensor::Encoded> ggml_weight(std::shared_ptr<const io::Gguf> file,
                                                   const io::GgufTensor& tensor,
                                                   std::function<int64_t(int64_t)> row) {
  return std::make_shared<GgmlWeight>(std::move(file), tensor, std::move(row));
}

}  // namespace trl::kernels
