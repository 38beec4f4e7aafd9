#include "kernels/weight/encoded_weight.h"

#include <array>
#include <bit>

#include "io/four_bit.h"
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

class Int8Weight final : public tensor::Encoded {
 public:
  Int8Weight(std::vector<int64_t> shape, at::Tensor codes, at::Tensor absmax)
      : Encoded(std::move(shape)), codes_(std::move(codes)), absmax_(std::move(absmax)) {}

  std::string form() const override { return "int8"; }
  int64_t unit() const override { return 16; }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    Int8Rows rows = this->rows(part);
    rows.to = to;
    rows.stride = stride;
    rows.type = type == at::kBFloat16 ? Type::bf16 : Type::f32;
    cpu().int8(rows);
  }

  Int8Rows rows(const tensor::Part2d& part) const noexcept {
    Int8Rows rows{};
    rows.codes = codes_.data_ptr<int8_t>() + part.row * width() + part.column;
    rows.absmax = absmax_.data_ptr<float>() + part.row;
    rows.step = io::kInt8Step;
    rows.pitch = width();
    rows.rows = part.rows;
    rows.columns = part.columns;
    return rows;
  }

 private:
  const at::Tensor codes_, absmax_;
};

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
  bool in_order() const { return !row_; }
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

  // part: whole blocks
  GgmlRows blocks(const tensor::Part2d& part) const noexcept {
    const int64_t pitch = width() / block() * kind_->bytes;
    const auto* const data = static_cast<const uint8_t*>(tensor_.data);
    GgmlRows rows{};
    rows.ggml_type = kind_->number;
    rows.blocks = data + part.row * pitch + part.column / block() * kind_->bytes;
    rows.pitch = pitch;
    rows.rows = part.rows;
    rows.count = part.columns / block();
    return rows;
  }

 private:
  int64_t block() const { return std::max<int64_t>(1, kind_->block); }

  // Returns false if the part does not consist of whole blocks, or holds plain numbers.
  bool decode_blocks(const tensor::Part2d& part, at::ScalarType type, void* to,
                     int64_t stride) const noexcept {
    if (part.column % block() != 0 || part.columns % block() != 0) return false;
    GgmlRows rows = blocks(part);
    rows.to = to;
    rows.stride = stride;
    rows.type = type == at::kBFloat16 ? Type::bf16 : Type::f32;
    return cpu().ggml(rows);
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

std::optional<Int8Rows> int8_rows(const tensor::Encoded& w, const tensor::Part2d& part) {
  const auto* const own = dynamic_cast<const Int8Weight*>(&w);
  return own != nullptr ? std::optional(own->rows(part)) : std::nullopt;
}

std::optional<GgmlRows> ggml_rows(const tensor::Encoded& w, const tensor::Part2d& part) {
  const auto* const own = dynamic_cast<const GgmlWeight*>(&w);
  return own != nullptr && own->in_order() ? std::optional(own->blocks(part)) : std::nullopt;
}

std::shared_ptr<const tensor::Encoded> int8_weight(std::vector<int64_t> shape, at::Tensor codes,
                                                   at::Tensor absmax) {
  return std::make_shared<Int8Weight>(std::move(shape), std::move(codes), std::move(absmax));
}

std::shared_ptr<const tensor::Encoded> ggml_weight(std::shared_ptr<const io::Gguf> file,
                                                   const io::GgufTensor& tensor,
                                                   std::function<int64_t(int64_t)> row) {
  return std::make_shared<GgmlWeight>(std::move(file), tensor, std::move(row));
}

}  // namespace trl::kernels
