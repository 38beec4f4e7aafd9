#include "kernels/weight/row_products.h"

#include "kernels/op.h"
#include "kernels/weight/encoded_weight.h"

namespace trl::kernels {

namespace {

constexpr int64_t kUnit = 32;  // outputs

int64_t size_of(Type type) { return type == Type::f32 ? 4 : 2; }

// The product's outputs from `begin` on, whose weights are in `rows`.
Skinny part_of(const Skinny& whole, int64_t begin, const void* rows) {
  const auto moved = [&](const void* at, Type type) {
    return static_cast<const char*>(at) + begin * size_of(type);
  };
  Skinny part = whole;
  part.w = rows;
  part.near = true;
  part.y = const_cast<char*>(moved(whole.y, whole.y_type));
  if (whole.bias != nullptr) part.bias = moved(whole.bias, whole.bias_type);
  return part;
}

// Computes outputs [begin, end) of a product with an encoded weight. as_read: not with the bits of the
// decoded numbers, if the kernels multiply codes faster without rounding these.
void multiply_decoded(const RowProduct& p, int64_t begin, int64_t end, bool as_read, void* rows) {
  const Skinny& whole = p.args;
  const tensor::Part2d rows_read{p.first_row + begin, end - begin, 0, whole.k};
  const auto four_bit = as_read ? four_bit_rows(*p.encoded, rows_read) : std::nullopt;
  if (four_bit && cpu().skinny_four_bit(part_of(whole, begin, nullptr), *four_bit)) return;
  const auto eight_bit = as_read ? int8_rows(*p.encoded, rows_read) : std::nullopt;
  if (eight_bit && cpu().skinny_int8(part_of(whole, begin, nullptr), *eight_bit)) return;
  const auto blocks = as_read ? ggml_rows(*p.encoded, rows_read) : std::nullopt;
  if (blocks && cpu().skinny_ggml(part_of(whole, begin, nullptr), *blocks)) return;
  const int64_t together = cpu().skinny_rows(whole);
  for (int64_t out = begin; out < end; out += together) {
    const int64_t count = std::min(together, end - out);
    p.encoded->decode({p.first_row + out, count, 0, whole.k}, scalar_type(whole.w_type), rows, whole.k);
    cpu().skinny(part_of(whole, out, rows), 0, count);
  }
}

int64_t packed_bytes(const RowProduct& p) {
  if (p.narrow == nullptr) return cpu().skinny_bytes(p.args);
  return p.args.rows * narrow_blocks(p.args.k) * static_cast<int64_t>(sizeof(NarrowTerms));
}

void pack(const RowProduct& p, void* to) {
  const int64_t unit = p.narrow == nullptr ? kSkinnyGroup : 1;
  tensor::parallel_for((p.args.rows + unit - 1) / unit, 1, [&](int64_t begin, int64_t end) {
    if (p.narrow == nullptr)
      cpu().skinny_pack(p.args, to, begin, end);
    else
      cpu().narrow_terms(p.args, p.narrow->type(), to, begin, end);
  });
}

bool packed_alike(const RowProduct& a, const RowProduct& b) {
  if ((a.narrow == nullptr) != (b.narrow == nullptr)) return false;
  if (a.narrow != nullptr && a.narrow->type() != b.narrow->type()) return false;
  return a.args.x == b.args.x && a.args.rows == b.args.rows && a.args.k == b.args.k &&
         a.args.x_stride == b.args.x_stride && a.args.x_type == b.args.x_type &&
         a.args.w_type == b.args.w_type;
}

// The rows of the products as the kernels read them: packed once for products that follow each other and read
// the same ones.
std::vector<at::Tensor> packed(std::vector<RowProduct>& all) {
  std::vector<at::Tensor> packs;
  const RowProduct* last = nullptr;
  for (RowProduct& p : all) {
    const int64_t bytes = packed_bytes(p);
    if (bytes == 0) continue;
    if (last == nullptr || !packed_alike(*last, p)) {
      packs.push_back(tensor::empty({bytes}, at::kByte, MemoryKind::workspace));
      pack(p, packs.back().data_ptr());
    }
    p.args.packed = packs.back().data_ptr();
    last = &p;
  }
  return packs;
}

// A product of factors into y; its bias is none.
RowProduct product_of(const Matrix& a, const Matrix& b, void* y, Type y_type, int64_t y_stride) {
  Skinny args{a.data,   b.data,          nullptr,         y,         a.rows, a.cols, a.stride,
              y_stride, type_of(a.type), type_of(b.type), Type::f32, y_type};
  args.by_columns = !b.transposed;
  args.w_stride = b.stride;
  return {args, nullptr, 0, b.cols};
}

bool has_few_terms(const Multiplication& m) {
  return m.beta == 1.0f && m.more.empty() && m.b.transposed && m.a.cols <= kMostFewTerms;
}

// Adds the products of these multiplications to their results.
void add_few_terms(const std::vector<const Multiplication*>& all) {
  std::vector<int64_t> starts = {0};  // each one's first among the units of all
  for (const Multiplication* m : all) starts.push_back(starts.back() + (m->b.cols + kUnit - 1) / kUnit);
  tensor::parallel_for(starts.back(), 4, [&](int64_t begin, int64_t end) {
    for (size_t i = 0; i < all.size(); ++i) {
      const Multiplication& m = *all[i];
      const int64_t from = std::max(begin, starts[i]) - starts[i],
                    to = std::min(end, starts[i + 1]) - starts[i];
      if (from >= to) continue;
      cpu().add_few_terms({m.a.data, m.b.data, m.c, m.a.rows, m.a.cols, m.a.stride, m.b.stride, m.c_stride,
                           type_of(m.a.type), type_of(m.c_type)},
                          from * kUnit, std::min(to * kUnit, m.b.cols));
    }
  });
}

// c = sum, or c + sum with beta 1, rounded once.
void put_sum(const Multiplication& m, const at::Tensor& sum) {
  const Type type = type_of(m.c_type);
  tensor::parallel_for(m.a.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* const from = sum.data_ptr<float>() + r * m.b.cols;
      char* const to = static_cast<char*>(m.c) + r * m.c_stride * size_of(type);
      if (m.beta == 1.0f)
        cpu().add(to, type, from, Type::f32, 1, to, m.b.cols);
      else
        cpu().convert(from, Type::f32, to, type, m.b.cols);
    }
  });
}

}  // namespace

Type operand_type(const tensor::Encoded* encoded, Type x) {
  const bool in_blocks = encoded != nullptr && ggml_rows(*encoded, {}).has_value();
  return in_blocks && IndependentRows::active() ? cpu().block_type(x) : x;
}

// Each thread takes the next outputs when it is done, since other programs may slow any thread down at any
// time.
void multiply_rows(std::vector<RowProduct> all) {
  const tensor::Timed timed(tensor::Part::gemm);
  std::vector<int64_t> starts = {0};  // each product's first among the units of all
  for (const RowProduct& p : all) starts.push_back(starts.back() + (p.outputs + kUnit - 1) / kUnit);
  const std::vector<at::Tensor> packs = packed(all);
  const int64_t count = starts.back(), width = std::min<int64_t>(tensor::threads(), (count + 3) / 4);
  const int64_t piece = std::clamp<int64_t>(count / std::max<int64_t>(1, 4 * width), 1, 32);
  const bool as_read = IndependentRows::active();
  std::atomic<int64_t> next{0}, place{0};
  int64_t bytes = 0;
  for (const RowProduct& p : all) {
    if (p.encoded == nullptr) continue;
    bytes = std::max(bytes, round_up(cpu().skinny_rows(p.args) * p.args.k * size_of(p.args.w_type), 64));
  }
  const at::Tensor work = tensor::empty({width * bytes}, at::kByte, MemoryKind::workspace);
  tensor::parallel_for(width, 1, [&](int64_t, int64_t) {
    uint8_t* const mine = work.data_ptr<uint8_t>() + place.fetch_add(1) * bytes;
    for (int64_t begin = next.fetch_add(piece); begin < count && !base::stopped();
         begin = next.fetch_add(piece)) {
      for (size_t i = 0; i < all.size(); ++i) {
        const int64_t from = std::max(begin, starts[i]) - starts[i];
        const int64_t to = std::min(begin + piece, starts[i + 1]) - starts[i];
        if (from >= to) continue;
        const int64_t last = std::min(to * kUnit, all[i].outputs);
        if (all[i].narrow != nullptr)
          cpu().narrow_product(all[i].args, all[i].narrow->type(), from * kUnit, last);
        else if (all[i].encoded == nullptr)
          cpu().skinny(all[i].args, from * kUnit, last);
        else
          multiply_decoded(all[i], from * kUnit, last, as_read, mine);
      }
    }
  });
}

void multiply_rows(at::ArrayRef<Multiplication> all) {
  std::vector<RowProduct> products;
  std::vector<const Multiplication*> few;
  std::vector<std::pair<const Multiplication*, std::vector<at::Tensor>>> sums;
  for (const Multiplication& m : all) {
    need(!m.a.transposed, "gemm", "rows of A");
    if (has_few_terms(m)) {
      few.push_back(&m);
      continue;
    }
    if (m.more.empty() && m.beta == 0.0f) {
      products.push_back(product_of(m.a, m.b, m.c, type_of(m.c_type), m.c_stride));
      continue;
    }
    auto& [of, own] = sums.emplace_back(&m, std::vector<at::Tensor>());
    const auto add = [&](const Matrix& a, const Matrix& b) {
      own.push_back(tensor::empty({a.rows, b.cols}, at::kFloat, MemoryKind::workspace));
      products.push_back(product_of(a, b, own.back().data_ptr(), Type::f32, b.cols));
    };
    add(m.a, m.b);
    for (const Factors& f : m.more) add(f.a, f.b);
  }
  if (!few.empty()) add_few_terms(few);
  if (!products.empty()) multiply_rows(std::move(products));
  for (const auto& [m, own] : sums) {
    for (size_t i = 1; i < own.size(); ++i) add_to(own[i], own[0]);
    put_sum(*m, own[0]);
  }
}

void skinny_products(const at::Tensor& x, at::ArrayRef<SkinnyProduct> products) {
  std::vector<RowProduct> all;
  for (const SkinnyProduct& p : products) {
    const bool biased = p.bias.defined(), dense = p.encoded == nullptr;
    const at::Tensor w = p.narrow != nullptr ? p.narrow->values() : p.w;
    const bool codes = p.narrow != nullptr && p.narrow->type() != NarrowType::bfloat16;
    const Skinny args{x.data_ptr(),
                      dense ? w.data_ptr() : nullptr,
                      biased ? p.bias.data_ptr() : nullptr,
                      p.y.data_ptr(),
                      x.size(0),
                      x.size(1),
                      x.size(1),
                      p.y.stride(0),
                      type_of(x),
                      dense && !codes ? type_of(w) : operand_type(p.encoded, type_of(x)),
                      biased ? type_of(p.bias) : Type::f32,
                      type_of(p.y)};
    all.push_back({args, p.encoded, p.first_row, p.y.size(1), codes ? p.narrow : nullptr});
  }
  multiply_rows(std::move(all));
}

}  // namespace trl::kernels
