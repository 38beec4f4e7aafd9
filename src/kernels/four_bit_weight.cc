#include "kernels/four_bit_weight.h"

#include <array>

#include "kernels/op.h"

namespace trl::kernels {

namespace {

class FourBitWeight final : public tensor::Encoded {
 public:
  FourBitWeight(std::vector<int64_t> shape, FourBitValues values)
      : Encoded(std::move(shape)), values_(std::move(values)) {}

  std::string form() const override { return values_.type == io::FourBit::nf4 ? "NF4" : "FP4"; }
  // Other columns can be decoded too; these are fast.
  int64_t unit() const override { return 64; }

  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    const bool narrow = type == at::kBFloat16;
    FourBitRows rows{};
    rows.codes = values_.codes.data_ptr<uint8_t>();
    rows.code = io::four_bit_code(values_.type).data();
    rows.pitch = width();
    rows.columns = part.columns;
    rows.block = values_.block;
    rows.stride = stride;
    rows.type = narrow ? Type::bf16 : Type::f32;
    std::array<float, 1024> absmax;
    // of a row that begins anywhere in its first block
    const int64_t blocks = (part.columns + values_.block - 2) / values_.block + 1;
    const int64_t at_once = starts_blocks() ? part.rows : std::max<int64_t>(1, std::ssize(absmax) / blocks);
    for (int64_t r = 0; r < part.rows; r += at_once) {
      rows.rows = std::min(at_once, part.rows - r);
      rows.first = (part.row + r) * width() + part.column;
      rows.to = static_cast<char*>(to) + r * stride * (narrow ? 2 : 4);
      decode(rows, blocks, absmax);
    }
  }

 private:
  // Does each row begin with a block whose absmax is there? Then they are read from where they lie.
  bool starts_blocks() const noexcept { return values_.nested_block == 0 && width() % values_.block == 0; }

  void decode(FourBitRows& rows, int64_t blocks, std::array<float, 1024>& place) const noexcept {
    const int64_t block = values_.block;
    if (starts_blocks()) {
      rows.absmax = values_.absmax.data_ptr<float>() + rows.first / block;
      rows.absmax_stride = rows.pitch / block;
      return cpu().four_bit(rows);
    }
    if (blocks > std::ssize(place)) return decode_long(rows, place);
    for (int64_t r = 0; r < rows.rows; ++r) {
      const int64_t first = rows.first + r * rows.pitch, last = first + rows.columns - 1;
      read_absmax(first / block, last / block + 1, place.data() + r * blocks);
    }
    rows.absmax = place.data();
    rows.absmax_stride = blocks;
    cpu().four_bit(rows);
  }

  // One row, some blocks at a time.
  void decode_long(FourBitRows rows, std::array<float, 1024>& place) const noexcept {
    const int64_t end = rows.first + rows.columns, size = rows.type == Type::bf16 ? 2 : 4;
    const int64_t at_once = std::ssize(place) * values_.block;
    rows.rows = 1;
    rows.absmax = place.data();
    while (rows.first < end) {
      rows.columns = std::min(end, (rows.first / at_once + 1) * at_once) - rows.first;
      const int64_t last = rows.first + rows.columns - 1;
      read_absmax(rows.first / values_.block, last / values_.block + 1, place.data());
      cpu().four_bit(rows);
      rows.first += rows.columns;
      rows.to = static_cast<char*>(rows.to) + rows.columns * size;
    }
  }

  void read_absmax(int64_t begin, int64_t end, float* to) const noexcept {
    if (values_.nested_block == 0) {
      std::memcpy(to, values_.absmax.data_ptr<float>() + begin,
                  static_cast<size_t>(end - begin) * sizeof(float));
      return;
    }
    io::decode_dynamic(values_.absmax.data_ptr<uint8_t>(), values_.nested_absmax.data_ptr<float>(),
                       values_.nested_code.data_ptr<float>(), values_.nested_block, values_.offset, begin,
                       end, to);
  }

  const FourBitValues values_;
};

}  // namespace

void nest(FourBitValues& values, const at::Tensor& absmax) {
  const at::Tensor mean = absmax.mean();
  const at::Tensor rest = absmax - mean;
  values.nested_block = 256;
  values.offset = mean.item<float>();
  values.absmax = tensor::empty(absmax.sizes(), at::kByte, MemoryKind::weights);
  values.nested_absmax = tensor::empty({(absmax.numel() + 255) / 256}, at::kFloat, MemoryKind::weights);
  values.nested_code = tensor::empty({256}, at::kFloat, MemoryKind::weights);
  std::memcpy(values.nested_code.data_ptr(), io::dynamic_code().data(), 256 * sizeof(float));
  io::encode_dynamic(rest.data_ptr<float>(), rest.numel(), values.nested_block,
                     values.absmax.data_ptr<uint8_t>(), values.nested_absmax.data_ptr<float>());
}

std::shared_ptr<const tensor::Encoded> four_bit_weight(std::vector<int64_t> shape, FourBitValues values) {
  return std::make_shared<FourBitWeight>(std::move(shape), std::move(values));
}

}  // namespace trl::kernels
