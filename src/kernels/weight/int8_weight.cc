#include "kernels/weight/int8_weight.h"

#include "io/int8_rows.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

class Int8Weight final : public tensor::Encoded {
 public:
  Int8Weight(std::vector<int64_t> shape, at::Tensor codes, at::Tensor absmax)
      : Encoded(std::move(shape)), codes_(std::move(codes)), absmax_(std::move(absmax)) {}

  std::string form() const override { return "int8"; }
  int64_t unit() const override { return 16; }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    cpu().int8({codes_.data_ptr<int8_t>() + part.row * width() + part.column,
                absmax_.data_ptr<float>() + part.row, io::kInt8Step, width(), part.rows, part.columns, to,
                stride, type == at::kBFloat16 ? Type::bf16 : Type::f32});
  }

 private:
  const at::Tensor codes_, absmax_;
};

}  // namespace

std::shared_ptr<const tensor::Encoded> int8_weight(std::vector<int64_t> shape, at::Tensor codes,
                                                   at::Tensor absmax) {
  return std::make_shared<Int8Weight>(std::move(shape), std::move(codes), std::move(absmax));
}

}  // namespace trl::kernels
