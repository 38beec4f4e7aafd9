// Attention for one position over keys and values in pages. Work is divided by head of keys and piece of
// rows, never by thread, and pieces are joined in their order.
#include <cmath>

#include "kernels/backend.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

// Rows: keys of a head stay in the first-level cache, and three heads suit two threads.
constexpr int64_t kPiece = 64;

struct Piece {
  const KeyValues* page;
  int64_t row, count;
};

// Cuts rows [first, length) of all pages.
std::vector<Piece> pieces_of(at::ArrayRef<KeyValues> pages, int64_t first, int64_t length) {
  std::vector<Piece> pieces;
  int64_t start = 0;
  for (const KeyValues& page : pages) {
    const int64_t end = std::min(length - start, page.keys.size(0));
    for (int64_t row = std::max<int64_t>(0, first - start); row < end; row += kPiece)
      pieces.push_back({&page, row, std::min(kPiece, end - row)});
    start += page.keys.size(0);
  }
  return pieces;
}

// The partial results of each piece, for all heads.
class Shares {
 public:
  Shares(int64_t pieces, const at::Tensor& q)
      : heads_(q.size(0)),
        width_(q.size(1)),
        memory_(tensor::empty({pieces, heads_ * (width_ + 2 + kPiece)}, at::kFloat, MemoryKind::workspace)) {}
  float* out(int64_t piece) const { return memory_.data_ptr<float>() + piece * memory_.size(1); }
  float* top(int64_t piece) const { return out(piece) + heads_ * width_; }
  float* sum(int64_t piece) const { return top(piece) + heads_; }
  float* scores(int64_t piece) const { return sum(piece) + heads_; }
  int64_t pieces() const { return memory_.size(0); }

 private:
  const int64_t heads_, width_;
  const at::Tensor memory_;
};

// Scales all partial results of a head to the largest top, and adds them.
void join(const Shares& shares, int64_t head, at::Tensor& out) {
  const int64_t width = out.size(1), pieces = shares.pieces();
  float top = shares.top(0)[head];
  for (int64_t p = 1; p < pieces; ++p) top = std::max(top, shares.top(p)[head]);
  float* const whole = shares.out(0) + head * width;
  float sum = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    const float factor = std::exp(shares.top(p)[head] - top);
    const float* const share = shares.out(p) + head * width;
    for (int64_t i = 0; i < width; ++i) whole[i] = (p > 0 ? whole[i] : 0) + share[i] * factor;
    sum += shares.sum(p)[head] * factor;
  }
  for (int64_t i = 0; i < width; ++i) whole[i] /= sum;
  cpu().convert(whole, Type::f32, at_byte(out, head * width), type_of(out), width);
}

bool fits(const at::Tensor& q, const KeyValues& page) {
  return page.keys.dim() == 3 && page.keys.sizes() == page.values.sizes() && q.size(1) == page.keys.size(2) &&
         page.keys.size(1) > 0 && q.size(0) % page.keys.size(1) == 0 && page.keys.is_contiguous() &&
         page.values.is_contiguous() && q.scalar_type() == page.keys.scalar_type() &&
         q.scalar_type() == page.values.scalar_type();
}

}  // namespace

namespace fused_ops {

void attention_decode(const at::Tensor& q, at::ArrayRef<KeyValues> pages, int64_t length,
                      const AttentionOptions& options, at::Tensor& out) {
  const tensor::Timed timed(tensor::Part::attention);
  const int64_t heads = q.size(0), width = q.size(1), kv_heads = pages[0].keys.size(1);
  const int64_t group = heads / kv_heads;
  const int64_t first = options.window > 0 ? std::max<int64_t>(0, length - options.window) : 0;
  const std::vector<Piece> pieces = pieces_of(pages, first, length);
  const auto count = static_cast<int64_t>(pieces.size());
  const Shares shares(count, q);
  const int64_t grain = std::max<int64_t>(1, 16384 / (group * width * pieces[0].count));
  tensor::parallel_for(count * kv_heads, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t p = i / kv_heads, kv = i % kv_heads, head = kv * group;
      const Piece& piece = pieces[static_cast<size_t>(p)];
      const int64_t at = (piece.row * kv_heads + kv) * width;
      cpu().attention_decode({at_byte(q, head * width), at_byte(piece.page->keys, at),
                              at_byte(piece.page->values, at), shares.top(p) + head, shares.sum(p) + head,
                              shares.out(p) + head * width, shares.scores(p) + head * kPiece, group,
                              piece.count, width, kv_heads * width, static_cast<float>(options.scale),
                              static_cast<float>(options.softcap), type_of(q)});
    }
  });
  for (int64_t head = 0; head < heads; ++head) join(shares, head, out);
}

}  // namespace fused_ops

void attention_decode(const at::Tensor& q, at::ArrayRef<KeyValues> pages, int64_t length,
                      const AttentionOptions& options, at::Tensor& out) {
  int64_t rows = 0;
  bool valid = q.dim() == 2 && q.is_contiguous() && out.sizes() == q.sizes() && out.is_contiguous() &&
               q.scalar_type() == out.scalar_type();
  for (const KeyValues& page : pages) {
    valid = valid && fits(q, page) && page.keys.size(1) == pages[0].keys.size(1);
    rows += page.keys.size(0);
  }
  need(valid && length > 0 && length <= rows, "attention_decode",
       "q, out [heads, d] and pages of keys, values [rows, kv_heads, d] of one type, with at least length "
       "rows in all, are required");
  return backend(q).attention_decode(q, pages, length, options, out);
}

}  // namespace trl::kernels
