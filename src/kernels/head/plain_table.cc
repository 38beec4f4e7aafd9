#include "kernels/head/plain_table.h"

#include "kernels/gemm/gemm.h"
#include "kernels/op.h"
#include "kernels/plain.h"
#include "kernels/weight/narrow_weight.h"

namespace trl::kernels::plain {

namespace {

constexpr int64_t kTileBytes = int64_t{64} << 20;  // bytes of a tile's logits, in float32

// op(a) op(b), op as in gemm(), with the sums of bfloat16 products in float32. ATen rounds them to bfloat16,
// and on the CPU is several times slower.
at::Tensor wide_product(const at::Tensor& a, bool a_transposed, const at::Tensor& b, bool b_transposed) {
  const at::Tensor left = a_transposed ? a.t() : a, right = b_transposed ? b.t() : b;
  if (a.scalar_type() != at::kBFloat16 || !a.is_cpu()) return left.mm(right).to(wide_type(a));
  at::Tensor product = at::empty({left.size(0), right.size(1)}, a.options().dtype(at::kFloat));
  gemm(a, a_transposed, b, b_transposed, product);
  return product;
}

// Scales and caps the products, in place.
at::Tensor finished(at::Tensor products, const HeadOptions& options) {
  if (options.scale != 1) products.mul_(options.scale);
  if (options.softcap > 0) products.div_(options.softcap).tanh_().mul_(options.softcap);
  return products;
}

at::Tensor ids_of(const OwnRows& own, at::Device device) {
  return at::tensor(at::IntArrayRef(own.ids), at::kLong).to(device);
}

at::Tensor table_of(Parameter& head, const HeadOptions& options) {
  const at::Tensor table = head.read()->detach();
  const OwnRows* const own = own_rows(options);
  if (own == nullptr) return table;
  return table.index_copy(0, ids_of(*own, table.device()), own->rows->read()->to(table.scalar_type()));
}

}  // namespace

PlainTable::PlainTable(const at::Tensor& hidden, Parameter& head, const HeadOptions& options,
                       const HeadGradients& to)
    : hidden_(hidden), table_(table_of(head, options).to(options.compute)), options_(options), to_(to) {
  if (own_rows(options) != nullptr) ids_ = ids_of(*options.own_rows, hidden.device());
}

int64_t PlainTable::tile_rows() const {
  return options_.tile_rows > 0 ? options_.tile_rows
                                : std::max<int64_t>(1, kTileBytes / (4 * table_.size(0)));
}

void PlainTable::begin(bool several) {
  const at::Tensor& d_head = to_.d_head.high;
  if (d_head.defined()) d_weight_ = several ? d_head.to(wide_type(d_head)) : d_head;
}

at::Tensor PlainTable::logits(const at::Tensor& x) const {
  const at::Tensor logits = finished(wide_product(x, false, table_, true), options_);
  if (options_.temperature != 1) logits.div_(options_.temperature);
  return logits;
}

void PlainTable::add(const at::Tensor& rows, const at::Tensor& x, const at::Tensor& logits,
                     const at::Tensor& d) {
  if (options_.softcap > 0) d.mul_(1 - (logits * (options_.temperature / options_.softcap)).square());
  if (options_.scale != options_.temperature) d.mul_(options_.scale / options_.temperature);
  const at::Tensor d_logits = d.to(options_.compute);
  if (to_.d_hidden.defined()) {
    const at::Tensor d_rows = wide_product(d_logits, false, table_, false);
    at::Tensor(to_.d_hidden).index_copy_(0, rows, d_rows.to(hidden_.scalar_type()));
  }
  if (!d_weight_.defined() && !to_.d_own.defined()) return;
  const at::Tensor of_table = wide_product(d_logits, true, x, false);
  if (to_.d_own.defined()) at::Tensor(to_.d_own).add_(of_table.index_select(0, ids_));
  if (d_weight_.defined()) d_weight_.add_(ids_.defined() ? of_table.index_fill(0, ids_, 0) : of_table);
}

void PlainTable::finish() {
  const at::Tensor& d_head = to_.d_head.high;
  if (d_head.defined() && !d_weight_.is_same(d_head)) d_head.copy_(d_weight_);
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  if (options.narrow != nullptr) {
    const at::Tensor x = hidden.to(options.compute).to(at::kFloat);
    const at::Tensor logits = narrow_product(x, *options.narrow);
    if (const OwnRows* const own = own_rows(options)) {
      const at::Tensor rows = own->rows->read()->to(options.compute).to(at::kFloat);
      logits.index_copy_(1, ids_of(*own, x.device()), at::linear(x, rows));
    }
    return finished(logits, options);
  }
  const at::Tensor table = table_of(head, options).to(options.compute);
  return finished(wide_product(hidden.to(options.compute), false, table, true).to(at::kFloat), options);
}

}  // namespace trl::kernels::plain
