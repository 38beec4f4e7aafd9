#include "kernels/weight/four_bit_weight.h"

#include <bit>

#include "kernels/op.h"
#include "tensor/memory/rehearsal.h"

namespace trl::kernels {

namespace {

class FourBitWeight final : public tensor::Encoded {
 public:
  FourBitWeight(std::vector<int64_t> shape, FourBitValues values)
      : Encoded(std::move(shape)), values_(std::move(values)) {}

  std::string form() const override { return values_.type == io::FourBit::nf4 ? "NF4" : "FP4"; }
  // Decoding can begin at any column; multiples of this are fast.
  int64_t unit() const override { return 64; }

  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    FourBitRows rows = this->rows(part);
    rows.to = to;
    rows.stride = stride;
    rows.type = type == at::kBFloat16 ? Type::bf16 : Type::f32;
    cpu().four_bit(rows);
  }

  FourBitRows rows(const tensor::Part2d& part) const noexcept {
    FourBitRows rows{};
    rows.codes = values_.codes.data_ptr<uint8_t>();
    rows.code = io::four_bit_code(values_.type).data();
    if (values_.nested_block == 0) {
      rows.absmax = values_.absmax.data_ptr<float>();
    } else {
      rows.absmax = values_.nested_absmax.data_ptr<float>();
      rows.nested = values_.absmax.data_ptr<uint8_t>();
      rows.nested_code = values_.nested_code.data_ptr<float>();
      rows.nested_shift = shift_of(values_.nested_block);
      rows.offset = values_.offset;
    }
    rows.block_shift = shift_of(values_.block);
    rows.first = part.row * width() + part.column;
    rows.pitch = width();
    rows.rows = part.rows;
    rows.columns = part.columns;
    return rows;
  }

 private:
  static int shift_of(int64_t power_of_two) { return std::countr_zero(static_cast<uint64_t>(power_of_two)); }

  const FourBitValues values_;
};

}  // namespace

void nest(FourBitValues& values, const at::Tensor& numbers) {
  const at::Tensor absmax = numbers;  // absmax may be the array that is replaced
  values.nested_block = 256;
  values.absmax = tensor::empty(absmax.sizes(), at::kByte, MemoryKind::weights);
  values.nested_absmax = tensor::empty({(absmax.numel() + 255) / 256}, at::kFloat, MemoryKind::weights);
  values.nested_code = tensor::empty({256}, at::kFloat, MemoryKind::weights);
  if (tensor::Rehearsal::current() != nullptr) return;
  const at::Tensor mean = absmax.mean();
  const at::Tensor rest = absmax - mean;
  values.offset = mean.item<float>();
  std::memcpy(values.nested_code.data_ptr(), io::dynamic_code().data(), 256 * sizeof(float));
  io::encode_dynamic(rest.data_ptr<float>(), rest.numel(), values.nested_block,
                     values.absmax.data_ptr<uint8_t>(), values.nested_absmax.data_ptr<float>());
}

std::shared_ptr<const tensor::Encoded> four_bit_weight(std::vector<int64_t> shape, FourBitValues values) {
  return std::make_shared<FourBitWeight>(std::move(shape), std::move(values));
}

std::optional<FourBitRows> four_bit_rows(const tensor::Encoded& w, const tensor::Part2d& part) {
  const auto* const own = dynamic_cast<const FourBitWeight*>(&w);
  return own != nullptr ? std::optional(own->rows(part)) : std::nullopt;
}

}  // namespace trl::kernels
