#include "kernels/weight/stored_weight.h"

#include <algorithm>
#include <array>

#include "kernels/linear/merge.h"
#include "kernels/op.h"
#include "tensor/memory/rehearsal.h"

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
      if (type == at::kBFloat16)
        decode_row(first, part.columns, static_cast<uint16_t*>(to) + r * stride);
      else
        decode_row(first, part.columns, static_cast<float*>(to) + r * stride);
    }
  }

 private:
  void decode_row(int64_t first, int64_t count, float* to) const noexcept {
    if (type_ == io::ElementType::bf16)
      cpu().convert(data_ + 2 * first, Type::bf16, to, Type::f32, count);
    else
      io::read_floats(type_, data_, first, count, to);
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

class MergedWeight final : public tensor::Encoded {
 public:
  explicit MergedWeight(const Projection& p)
      : Encoded(p.weight->shape().vec()),
        base_(p.weight->blocks()),
        type_(p.weight->dtype()),
        rows_(p.weight->size(p.weight->shape().size() - 2)),
        matrices_(p.weight->shape().size() == 3 ? p.weight->size(0) : 1),
        rank_(p.low_rank.rank() / matrices_),
        a_(of_columns(p)),
        b_(of_rows(p)) {
    if (p.low_rank.magnitude == nullptr) return;
    factors_ = floats(*p.low_rank.magnitude->read());
    tensor::in_parts([](const at::Tensor& x, const at::Tensor& norms) { x.div_(norms); }, factors_,
                     row_norms(p));
  }

  std::string form() const override { return base_->form(); }
  int64_t unit() const override { return base_->unit(); }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    const int64_t size = type == at::kBFloat16 ? 2 : 4;
    for (int64_t r = 0; r < part.rows; ++r) {
      for (int64_t done = 0; done < part.columns; done += kColumns) {
        decode_piece(part.row + r, part.column + done, std::min(kColumns, part.columns - done), type,
                     static_cast<char*>(to) + (r * stride + done) * size);
      }
    }
  }

 private:
  // A counted copy in float32. A rehearsal copies nothing.
  static at::Tensor floats(const at::Tensor& values) {
    at::Tensor copy = tensor::empty(values.sizes(), at::kFloat, MemoryKind::weights);
    tensor::copy_in_parts(copy, values);
    return copy;
  }
  // For a weight [in, out], as tables are, a and b swap roles.
  static at::Tensor of_columns(const Projection& p) {
    if (p.transposed) return floats(p.low_rank.b->read()->t());
    return floats(*p.low_rank.a->read());
  }
  at::Tensor of_rows(const Projection& p) const {
    const at::Tensor own = *(p.transposed ? p.low_rank.a : p.low_rank.b)->read();
    const at::Tensor scaled =
        floats(p.transposed ? own.t() : own.view({rows_, rank_, matrices_}).permute({2, 0, 1}));
    tensor::in_parts([&](const at::Tensor& x) { x.mul_(p.low_rank.scale); }, scaled);
    return scaled;
  }

  static constexpr int64_t kColumns = 1024;  // columns at a time: a multiple of every unit

  void decode_piece(int64_t row, int64_t column, int64_t count, at::ScalarType type,
                    void* to) const noexcept {
    std::array<float, kColumns> stored, values, terms{};
    base_->decode({row, 1, column, count}, type_, stored.data(), count);
    cpu().convert(stored.data(), type_of(type_), values.data(), Type::f32, count);
    const float* const b = b_.data_ptr<float>() + row * rank_;
    const float* const a = a_.data_ptr<float>() + row / rows_ * rank_ * width() + column;
    for (int64_t k = 0; k < rank_; ++k)
      cpu().add(terms.data(), Type::f32, a + k * width(), Type::f32, b[k], terms.data(), count);
    cpu().add(values.data(), Type::f32, terms.data(), Type::f32, 1, values.data(), count);
    if (factors_.defined())
      cpu().scale(values.data(), Type::f32, factors_.data_ptr<float>()[row], values.data(), Type::f32, count);
    cpu().convert(values.data(), Type::f32, to, type_of(type), count);
  }

  const std::shared_ptr<const tensor::Encoded> base_;
  const at::ScalarType type_;  // the type of the base's numbers
  const int64_t rows_, matrices_, rank_;
  // float32 [matrices * rank, width]; [matrices, rows, rank], multiplied by the scale.
  const at::Tensor a_, b_;
  at::Tensor factors_;  // float32 [rows]; undefined: none
};

}  // namespace

std::shared_ptr<const tensor::Encoded> stored_weight(const io::TensorView& view) {
  return std::make_shared<StoredWeight>(view);
}

std::shared_ptr<const tensor::Encoded> bfloat16_weight(const at::Tensor& values) {
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

EncodedPtr stacked_weight(std::vector<int64_t> shape, std::vector<EncodedPtr> matrices) {
  return std::make_shared<StackedWeight>(std::move(shape), std::move(matrices));
}

std::shared_ptr<const tensor::Encoded> merged_weight(const Projection& p) {
  return std::make_shared<MergedWeight>(p);
}

}  // namespace trl::kernels
