// If several tiles add to a bfloat16 gradient of the head, each element has one more byte until the last tile
// (or, if other uses add to it as well, until they have: tensor::Split), so that the sum is exact to 2^-16
// instead of 2^-8.
#include "kernels/head/tiled_head.h"

#include <algorithm>

#include "kernels/gemm/gemm.h"

namespace trl::kernels {

namespace {

// Numbers of parts of the vocabulary whose sums, and whose shares of the gradient of the rows, are joined in
// order: the same for any number of threads.
constexpr int64_t kParts = 64, kShares = 8;
constexpr int64_t kDecodedRows = 4 * kHeadBlock;  // rows of an encoded head that are decoded at once
// Bytes for logits, shares and operands; the operands that threads pack for themselves are additional.
constexpr int64_t kWorkBytes = int64_t{58} << 20;

at::Tensor workspace(at::IntArrayRef sizes, at::ScalarType type) {
  return tensor::empty(sizes, type, MemoryKind::workspace);
}

}  // namespace

// Each tile reads the head twice and its gradient once. (The alternative, parts of the vocabulary with all
// rows, computes all logits twice: a third more arithmetic. It is an estimate that the reading costs less
// from some 100 rows on.)
int64_t rows_of_tile(int64_t count, int64_t row_bytes, int64_t wanted) {
  if (wanted > 0) return std::min(count, wanted);
  constexpr int64_t kUnit = 32;
  const int64_t most = std::max(kUnit, kWorkBytes / row_bytes);
  const int64_t tiles = (count + most - 1) / most;
  const int64_t even = (count + tiles - 1) / tiles;
  return std::min(count, round_up(even, kUnit) <= most ? round_up(even, kUnit) : even);
}

TiledHead::TiledHead(const at::Tensor& hidden, Parameter& head, const HeadOptions& options,
                     const HeadGradients& gradients)
    : hidden_(hidden),
      patched_(own_rows(options) ? with_own_rows(head, *options.own_rows, options.compute) : nullptr),
      encoded_(patched_ ? patched_.get() : head.encoded()),
      reading_(encoded_ == nullptr ? std::optional(read_head(head, options.compute)) : std::nullopt),
      head_(reading_ ? **reading_ : at::Tensor()),
      vocab_(head.size(0)),
      options_(options),
      to_(gradients),
      kept_(gradients.d_head, own_rows(options)),
      stays_split_(to_.d_head.low.defined()),
      low_(to_.d_head.low) {}

int64_t TiledHead::row_bytes() const {
  const auto size = static_cast<int64_t>(c10::elementSize(options_.compute));
  return vocab() * size + width() * (3 * size + kShares * 4);
}

void TiledHead::begin(std::span<const int64_t> rows, int64_t tile_rows) {
  rows_ = rows;
  const HeadBytes bytes = cpu().head_bytes(tile_of(tile_rows));
  work_floats_ = bytes.work / 4;
  if (encoded_ != nullptr) work_floats_ += kDecodedRows * width();
  logits_ = workspace({vocab(), round_up(tile_rows, 16)}, options_.compute);
  operand_ = workspace({tile_rows, width()}, options_.compute);
  packed_ = workspace({bytes.packed / 4}, at::kFloat);
  if (to_.d_hidden.defined()) shares_ = workspace({kShares, tile_rows, round_up(width(), 16)}, at::kFloat);
  const at::Tensor& d_head = to_.d_head.high;
  if (d_head.defined() && d_head.scalar_type() == at::kBFloat16 && tile_rows < std::ssize(rows) &&
      !stays_split_)
    low_ = workspace({vocab(), width()}, at::kByte);
}

HeadTile TiledHead::tile_of(int64_t rows) const {
  HeadTile tile{};
  tile.rows = rows;
  tile.width = width();
  tile.vocab = vocab();
  tile.pitch = round_up(rows, 16);
  tile.type = type_of(options_.compute);
  if (encoded_ == nullptr) tile.weight = head_.data_ptr();
  tile.weight_type = encoded_ == nullptr ? type_of(head_) : tile.type;
  tile.scale = static_cast<float>(logit_factor());
  tile.softcap = static_cast<float>(options_.softcap / options_.temperature);
  tile.stopped = base::stopped;
  if (to_.d_head.high.defined()) {
    tile.grad = to_.d_head.high.data_ptr();
    tile.grad_type = type_of(to_.d_head.high);
  }
  if (packed_.defined()) {
    tile.packed = packed_.data_ptr<float>();
    tile.logits = logits_.data_ptr();
  }
  return tile;
}

// Calls body(part, begin, end, work).
template <typename Body>
void TiledHead::each_part_with_work(int64_t parts, const Body& body) const {
  const int64_t step = round_up((vocab() + parts - 1) / parts, kHeadBlock);
  each_with_work((vocab() + step - 1) / step, work_floats_, [&](int64_t part, float* work) {
    body(part, part * step, std::min(vocab(), (part + 1) * step), work);
  });
}

// Calls body(tile, from, to, work) for the rows [begin, end) of the head: all at once, or for an encoded head
// a group of rows at a time, decoded into the work memory.
template <typename Body>
void TiledHead::each_piece(int64_t begin, int64_t end, float* work, const Body& body) const {
  if (encoded_ == nullptr) return body(tile_, begin, end, work);
  HeadTile tile = tile_;
  tile.weight = work;
  for (int64_t from = begin; from < end; from += kDecodedRows) {
    const int64_t rows = std::min(kDecodedRows, end - from);
    encoded_->decode({from, rows, 0, width()}, scalar_type(tile.weight_type), work, width());
    tile.weight_row = from;
    body(tile, from, from + rows, work + kDecodedRows * width());
  }
}

void TiledHead::note(double others) const {
  tensor::Rehearsal* const rehearsal = tensor::Rehearsal::current();
  if (rehearsal == nullptr) return;
  const double products =
      1.0 + others + (to_.d_hidden.defined() ? 1 : 0) + (to_.d_head.high.defined() ? 1 : 0);
  rehearsal->note({tensor::Job::head,
                   {},
                   tile_.rows,
                   vocab(),
                   width(),
                   static_cast<int64_t>(c10::elementSize(options_.compute))},
                  2.0 * products * static_cast<double>(tile_.rows * vocab()) * static_cast<double>(width()),
                  products);
}

void TiledHead::compute(size_t first, int64_t rows, double others) {
  first_ = first;
  tile_ = tile_of(rows);
  note(others);
  const int64_t* const row = rows_.data() + first;  // indices of this tile's rows in hidden
  tensor::parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      cpu().convert(at_byte(hidden_, row[i] * width()), type_of(hidden_), at_byte(operand_, i * width()),
                    tile_.type, width());
  });
  each_with_work(1, work_floats_,
                 [&](int64_t, float* work) { cpu().head_pack(tile_, operand_.data_ptr(), work); });
  sum_up();
}

void TiledHead::sum_up() {
  stats_.resize(static_cast<size_t>(kParts * tile_.rows));
  const bool rehearsal = tensor::Rehearsal::current() != nullptr;
  if (!rehearsal) std::ranges::fill(stats_, HeadStats{});
  each_part_with_work(kParts, [&](int64_t part, int64_t begin, int64_t end, float* work) {
    each_piece(begin, end, work, [&](const HeadTile& piece, int64_t from, int64_t to, float* rest) {
      cpu().head_logits(piece, from, to, stats_.data() + part * tile_.rows, rest);
    });
  });
  for (int64_t part = 1; part < kParts && !rehearsal; ++part)
    for (int64_t i = 0; i < tile_.rows; ++i)
      join(stats_[static_cast<size_t>(i)], stats_[static_cast<size_t>(part * tile_.rows + i)]);
}

float TiledHead::logit(int64_t token, size_t row) const {
  float logit = 0;
  cpu().convert(at_byte(logits_, token * tile_.pitch + static_cast<int64_t>(row)), tile_.type, &logit,
                Type::f32, 1);
  return logit;
}

// Multiplies the logits' gradients, block after block, with the head and with the rows.
void TiledHead::add_gradients(const HeadFactors& factors) {
  if (low_.defined()) tile_.low = low_.data_ptr<uint8_t>();
  tile_.low_from = stays_split_ || first_ != 0;
  tile_.low_to = stays_split_ || first_ + static_cast<size_t>(tile_.rows) != rows_.size();
  if (to_.d_own.defined()) add_own_gradient(factors);
  const bool of_rows = shares_.defined();
  if (of_rows && tensor::Rehearsal::current() == nullptr)
    std::memset(shares_.data_ptr(), 0, static_cast<size_t>(shares_.nbytes()));
  each_part_with_work(kShares, [&](int64_t part, int64_t begin, int64_t end, float* memory) {
    float* const share = of_rows ? shares_.data_ptr<float>() + part * shares_.stride(0) : nullptr;
    each_piece(begin, end, memory, [&](const HeadTile& piece, int64_t from, int64_t to, float* rest) {
      cpu().head_gradient(piece, factors, from, to, share, rest);
    });
  });
  if (of_rows) add_rows();
}

// Joins the shares of the rows' gradients.
void TiledHead::add_rows() {
  const int64_t stride = shares_.size(2);
  const int64_t* const row = rows_.data() + first_;
  tensor::parallel_for(tile_.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const sum = shares_.data_ptr<float>() + i * stride;
      for (int64_t part = 1; part < kShares; ++part)
        cpu().add(sum, Type::f32, sum + part * shares_.stride(0), Type::f32, 1, sum, width());
      cpu().convert(sum, Type::f32, at_byte(to_.d_hidden, row[i] * width()), type_of(to_.d_hidden), width());
    }
  });
}

// The same computation as in the kernel for the gradient of a block of logits, only for the adapter's rows.
void TiledHead::add_own_gradient(const HeadFactors& f) {
  const std::vector<int64_t>& ids = options_.own_rows->ids;
  const int64_t rows = tile_.rows;
  const float cap = tile_.softcap;
  const at::Tensor d = workspace({std::ssize(ids), rows}, options_.compute);
  tensor::parallel_for(std::ssize(ids), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> g(static_cast<size_t>(rows)), slope(g.size(), 1.0f);
    for (int64_t j = begin; j < end; ++j) {
      const int64_t id = ids[static_cast<size_t>(j)];
      cpu().convert(at_byte(logits_, id * tile_.pitch), tile_.type, g.data(), Type::f32, rows);
      for (size_t i = 0; i < g.size() && f.top != nullptr; ++i) {
        if (cap > 0) slope[i] = 1 - (g[i] / cap) * (g[i] / cap);
        const float d_top = g[i] - f.top[i], e = std::exp(d_top);
        g[i] = e * f.scale[i] - f.spread[i];
        if (f.surprise != nullptr && e != 0) g[i] += e * d_top * f.surprise[i];
      }
      for (const HeadTarget* t = f.targets; t != f.end; ++t)
        if (t->token == id) g[static_cast<size_t>(t->row)] -= t->own;
      for (size_t i = 0; i < g.size(); ++i) g[i] *= slope[i];
      cpu().convert(g.data(), Type::f32, at_byte(d, j * rows), tile_.type, rows);
    }
  });
  at::Tensor sum = to_.d_own;
  gemm(d, false, operand_.narrow(0, 0, rows), false, sum, 1.0f);
}

}  // namespace trl::kernels
