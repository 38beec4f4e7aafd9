#include "kernels/weight/ggml_weight.h"

#include <array>

#include "kernels/op.h"
#include "tensor/memory/mapped_pages.h"

namespace trl::kernels {

namespace {

class GgmlWeight final : public tensor::Encoded {
 public:
  GgmlWeight(std::shared_ptr<const io::Gguf> file, const io::GgufTensor& tensor,
             std::function<int64_t(int64_t)> row)
      : Encoded(tensor.shape),
        file_(std::move(file)),
        tensor_(tensor),
        kind_(io::find_ggml_type(tensor.type)),
        row_(std::move(row)),
        pages_(base::MemoryKind::weights, static_cast<int64_t>(tensor.bytes)) {}

  std::string form() const override { return tensor_.type_name; }
  int64_t unit() const override { return block(); }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    if (!row_ && decode_blocks(part, type, to, stride)) return;
    const int64_t size = type == at::kBFloat16 ? 2 : 4;
    for (int64_t r = 0; r < part.rows; ++r) {
      const tensor::Part2d row{row_ ? row_(part.row + r) : part.row + r, 1, part.column, part.columns};
      char* const place = static_cast<char*>(to) + r * stride * size;
      if (!decode_blocks(row, type, place, stride)) decode_row(row, type, place);
    }
  }

 private:
  int64_t block() const { return std::max<int64_t>(1, kind_->block); }

  // Returns false if the part does not consist of whole blocks, or holds plain numbers.
  bool decode_blocks(const tensor::Part2d& part, at::ScalarType type, void* to,
                     int64_t stride) const noexcept {
    if (part.column % block() != 0 || part.columns % block() != 0) return false;
    const int64_t pitch = width() / block() * kind_->bytes;
    const auto* const data = static_cast<const uint8_t*>(tensor_.data);
    return cpu().ggml({kind_->number, data + part.row * pitch + part.column / block() * kind_->bytes, pitch,
                       part.rows, part.columns / block(), to, stride,
                       type == at::kBFloat16 ? Type::bf16 : Type::f32});
  }

  // Decodes whole blocks (a row begins and ends at a block's border) and copies the requested part.
  void decode_row(const tensor::Part2d& part, at::ScalarType type, char* to) const noexcept {
    std::array<float, 1024> values;
    const int64_t size = type == at::kBFloat16 ? 2 : 4, end = part.column + part.columns;
    for (int64_t at = part.column / block() * block(); at < end; at += std::ssize(values)) {
      const int64_t count = std::min(round_up(end - at, block()), std::ssize(values));
      io::dequantize(tensor_, part.row * width() + at, count, values.data());
      const int64_t first = std::max(part.column, at), last = std::min(end, at + count);
      cpu().convert(values.data() + (first - at), Type::f32, to + (first - part.column) * size,
                    type == at::kBFloat16 ? Type::bf16 : Type::f32, last - first);
    }
  }

  const std::shared_ptr<const io::Gguf> file_;
  const io::GgufTensor tensor_;
  const io::GgmlType* const kind_;
  const std::function<int64_t(int64_t)> row_;
  const tensor::MappedPages pages_;  // every step reads all of it
};

}  // namespace

std::shared_ptr<const tensor::Encoded> ggml_weight(std::shared_ptr<const io::Gguf> file,
                                                   const io::GgufTensor& tensor,
                                                   std::function<int64_t(int64_t)> row) {
  return std::make_shared<GgmlWeight>(std::move(file), tensor, std::move(row));
}

}  // namespace trl::kernels
