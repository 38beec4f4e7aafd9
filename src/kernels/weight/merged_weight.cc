#include "kernels/weight/merged_weight.h"

#include <array>

#include "kernels/linear/magnitude.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

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
    if (p.low_rank.magnitude != nullptr)
      factors_ = (p.low_rank.magnitude->read()->to(at::kFloat) / row_norms(p)).contiguous();
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
  // For a weight [in, out], as tables are, a and b swap roles.
  at::Tensor of_columns(const Projection& p) const {
    const at::Tensor wide = (p.transposed ? p.low_rank.b : p.low_rank.a)->read()->to(at::kFloat, false, true);
    return p.transposed ? wide.t().contiguous() : wide;
  }
  at::Tensor of_rows(const Projection& p) const {
    const at::Tensor wide =
        (p.transposed ? p.low_rank.a : p.low_rank.b)->read()->to(at::kFloat).mul(p.low_rank.scale);
    if (p.transposed) return wide.t().contiguous();
    return wide.view({rows_, rank_, matrices_}).permute({2, 0, 1}).contiguous();
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

std::shared_ptr<const tensor::Encoded> merged_weight(const Projection& p) {
  return std::make_shared<MergedWeight>(p);
}

}  // namespace trl::kernels
