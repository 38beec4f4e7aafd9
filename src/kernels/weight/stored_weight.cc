#include "kernels/weight/stored_weight.h"

#include <array>

#include "kernels/op.h"
#include "tensor/memory/mapped_pages.h"

namespace trl::kernels {

namespace {

class StoredWeight final : public tensor::Encoded {
 public:
  // values: the tensor that the view lies in, if it is not in a mapped file.
  explicit StoredWeight(const io::TensorView& view, at::Tensor values = {})
      : Encoded(view.shape),
        type_(view.type),
        name_(view.type_name),
        data_(static_cast<const char*>(view.data)),
        values_(std::move(values)),
        pages_(base::MemoryKind::weights, values_.defined() ? 0 : static_cast<int64_t>(view.bytes)) {}

  std::string form() const override { return name_; }
  int64_t unit() const override { return 1; }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    for (int64_t r = 0; r < part.rows; ++r) {
      const int64_t first = (part.row + r) * width() + part.column;
      if (type == at::kBFloat16) {
        decode_row(first, part.columns, static_cast<uint16_t*>(to) + r * stride);
      } else {
        decode_row(first, part.columns, static_cast<float*>(to) + r * stride);
      }
    }
  }

 private:
  void decode_row(int64_t first, int64_t count, float* to) const noexcept {
    if (type_ == io::ElementType::bf16) {
      cpu().convert(data_ + 2 * first, Type::bf16, to, Type::f32, count);
    } else {
      io::read_floats(type_, data_, first, count, to);
    }
  }

  void decode_row(int64_t first, int64_t count, uint16_t* to) const noexcept {
    if (type_ == io::ElementType::bf16) {
      std::memcpy(to, data_ + 2 * first, static_cast<size_t>(2 * count));
      return;
    }
    std::array<float, 1024> values;
    for (int64_t at = 0; at < count; at += std::ssize(values)) {
      const int64_t some = std::min(std::ssize(values), count - at);
      io::read_floats(type_, data_, first + at, some, values.data());
      cpu().convert(values.data(), Type::f32, to + at, Type::bf16, some);
    }
  }

  const io::ElementType type_;
  const std::string name_;
  const char* const data_;
  const at::Tensor values_;
  const tensor::MappedPages pages_;  // every step reads all of it
};

}  // namespace

std::shared_ptr<const tensor::Encoded> stored_weight(const io::TensorView& view) {
  return std::make_shared<StoredWeight>(view);
}

std::shared_ptr<const tensor::Encoded> narrow_weight(const at::Tensor& values) {
  io::TensorView view;
  view.type = io::ElementType::bf16;
  view.type_name = "BF16";
  view.shape = values.sizes().vec();
  view.data = values.data_ptr();
  view.bytes = values.nbytes();
  return std::make_shared<StoredWeight>(view, values);
}

at::Tensor stored_tensor(const io::TensorView& view) {
  const auto pages =
      std::make_shared<tensor::MappedPages>(base::MemoryKind::weights, static_cast<int64_t>(view.bytes));
  return at::from_blob(
      const_cast<void*>(view.data), view.shape, [pages](void*) {},
      view.type == io::ElementType::bf16 ? at::kBFloat16 : at::kFloat);
}

}  // namespace trl::kernels
