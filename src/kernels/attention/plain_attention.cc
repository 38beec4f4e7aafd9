// Attention one segment at a time, with its whole matrix of scores in float32. On CUDA, libtorch's own flash
// attention over all documents at once replaces it if it supports type and head_dim (Dao 2023; at most 256, a
// multiple of eight).
#include <torch/csrc/api/include/torch/version.h>

#include "kernels/attention/cached_rows.h"
#include "kernels/path.h"
#include "kernels/plain.h"

namespace trl::kernels::plain {

namespace {

// [tokens, heads, d] to [kv_heads, heads / kv_heads, tokens, d]
at::Tensor by_head(const at::Tensor& x, int64_t kv_heads, at::ScalarType type) {
  return x.view({x.size(0), kv_heads, x.size(1) / kv_heads, x.size(2)}).permute({1, 2, 0, 3}).to(type);
}

// q k^T, scaled and capped
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  const at::Tensor scores = q.matmul(k.transpose(2, 3)) * options.scale;
  return options.softcap > 0 ? (scores / options.softcap).tanh() * options.softcap : scores;
}

// The dropout factors of a segment's weights: [kv_heads, heads / kv_heads, queries, keys].
at::Tensor weight_factors(const at::Tensor& q, int64_t kv_heads, const Dropout& dropout, Range queries,
                          const std::vector<Range>& keys) {
  const int64_t heads = q.size(1), row = dropout.row;
  const Range rows{(row + queries.begin) * heads, (row + queries.end) * heads};
  std::vector<at::Tensor> parts;
  for (const Range& range : keys)
    parts.push_back(dropout_factors(dropout, rows, {row + range.begin, row + range.end}));
  return at::cat(parts, 1)
      .to(q.device())
      .view({queries.end - queries.begin, kv_heads, heads / kv_heads, -1})
      .permute({1, 2, 0, 3});
}

// Attention of one segment. k and v begin with `before` tokens, those of the segments that it continues; the
// others are the first ones of q, without its padding. factors: of the weights, or undefined.
at::Tensor segment(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t before,
                   const at::Tensor& factors, const AttentionOptions& options) {
  const int64_t length = q.size(0), keys = k.size(0), kv_heads = k.size(1);
  const at::ScalarType type = wide_type(q);
  const at::Tensor scores = scores_of(by_head(q, kv_heads, type), by_head(k, kv_heads, type), options);
  at::Tensor visible = at::ones({length, keys}, q.options().dtype(at::kBool)).tril(before);
  if (options.window > 0) visible = visible.triu(before + 1 - options.window);
  at::Tensor weights =
      scores.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity()).softmax(-1);
  if (options.window > 0 && before + length > keys)  // padding may see none of the others
    weights = weights.masked_fill(visible.logical_not(), 0);
  if (factors.defined()) weights = weights * factors;
  return weights.matmul(by_head(v, kv_heads, type))
      .permute({2, 0, 1, 3})
      .reshape(q.sizes())
      .to(q.scalar_type());
}

bool has_flash_attention(const at::Tensor& q, const Segments& segments, const AttentionOptions& options) {
  const bool type = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  return TORCH_VERSION_MAJOR >= 2 && q.is_cuda() && path() == Path::fused && type && q.size(2) <= 256 &&
         q.size(2) % 8 == 0 && segments.prefix.empty() && segments.padding.empty() && options.softcap == 0 &&
         options.dropout.rate == 0;
}

at::Tensor flash_attention([[maybe_unused]] const at::Tensor& q, [[maybe_unused]] const at::Tensor& k,
                           [[maybe_unused]] const at::Tensor& v, [[maybe_unused]] const Segments& segments,
                           [[maybe_unused]] const AttentionOptions& options) {
#if TORCH_VERSION_MAJOR >= 2
  const at::Tensor borders = at::tensor(segments.cu_seqlens).to(q.device());
  std::optional<int64_t> left, right;
  if (options.window > 0) {
    left = options.window - 1;
    right = 0;
  }
  return std::get<0>(at::_flash_attention_forward(q, k, v, borders, borders, segments.max_length,
                                                  segments.max_length, /*dropout_p=*/0, /*is_causal=*/true,
                                                  /*return_debug_mask=*/false, options.scale, left, right));
#else
  return {};
#endif
}

// The rows of a segment but its padding, preceded by those of the segments that it continues, the first one
// first.
std::vector<Range> path_to(const Segments& segments, size_t segment) {
  std::vector<Range> path;
  for (auto s = static_cast<int32_t>(segment); s >= 0;
       s = segments.prefix.empty() ? -1 : segments.prefix[static_cast<size_t>(s)]) {
    const auto at = static_cast<size_t>(s);
    path.insert(path.begin(), {segments.cu_seqlens[at], segments.cu_seqlens[at + 1]});
  }
  if (!segments.padding.empty()) path.back().end -= segments.padding[segment];
  return path;
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const SegmentsPtr& segments, const AttentionOptions& options) {
  if (has_flash_attention(q, *segments, options)) return flash_attention(q, k, v, *segments, options);
  const std::vector<int32_t>& borders = segments->cu_seqlens;
  std::vector<at::Tensor> parts;
  for (size_t s = 0; s + 1 < borders.size(); ++s) {
    const Range own{borders[s], borders[s + 1]};
    const std::vector<Range> seen = path_to(*segments, s);
    const auto rows_of = [&](const at::Tensor& x) {
      std::vector<at::Tensor> rows;
      for (const Range& range : seen) rows.push_back(x.narrow(0, range.begin, range.end - range.begin));
      return rows.size() == 1 ? rows[0] : at::cat(rows, 0);
    };
    at::Tensor factors;
    if (options.dropout.rate > 0) factors = weight_factors(q, k.size(1), options.dropout, own, seen);
    const at::Tensor keys = rows_of(k);
    const int64_t before = keys.size(0) - (seen.back().end - seen.back().begin);
    parts.push_back(
        segment(q.narrow(0, own.begin, own.end - own.begin), keys, rows_of(v), before, factors, options));
  }
  return at::cat(parts, 0);
}

namespace {

// The keys, or values, of a layer in a block, [kCacheRows, kv_heads, d]; scales: of integers, [kCacheRows,
// kv_heads, 1].
struct CachedBlock {
  at::Tensor elements, scales;

  CachedBlock rows(int64_t first, int64_t count) const {
    return {elements.narrow(0, first, count),
            scales.defined() ? scales.narrow(0, first, count) : at::Tensor()};
  }
  void keep(const at::Tensor& x) const {
    if (!scales.defined()) {
      elements.copy_(x);
      return;
    }
    const at::Tensor most = x.to(at::kFloat).abs().amax(-1, true);
    scales.copy_(most / 127);
    const at::Tensor factor = (127 / most).masked_fill(most <= 0x1p-100, 0);
    elements.copy_((x * factor).round().nan_to_num(0, 0, 0));
  }
  at::Tensor read() const { return scales.defined() ? elements * scales : elements; }
};

int64_t kept_size(const CacheShape& shape) {
  return shape.int8 ? 1 : static_cast<int64_t>(c10::elementSize(shape.compute));
}

// which: 0: keys, 1: values. A block's layer has the elements of both, then the scales of both.
CachedBlock block_of(const at::Tensor& layer, int64_t which, const CacheShape& shape) {
  const int64_t rows = kCacheRows * shape.kv_heads, bytes = rows * shape.head_dim * kept_size(shape);
  const auto part = [&](int64_t begin, int64_t size, at::ScalarType type, int64_t width) {
    return layer.narrow(0, begin, size).view(type).view({kCacheRows, shape.kv_heads, width});
  };
  CachedBlock block{part(which * bytes, bytes, shape.int8 ? at::kChar : shape.compute, shape.head_dim), {}};
  if (shape.int8) block.scales = part(2 * bytes + which * 4 * rows, 4 * rows, at::kFloat, 1);
  return block;
}

// The layer's keys, or values, of positions [begin, end), block by block.
std::vector<CachedBlock> cached_blocks(const CachedRun& run, int64_t layer, int64_t which,
                                       const CacheShape& shape, int64_t begin, int64_t end) {
  std::vector<CachedBlock> all;
  for (int64_t at = begin, next; at < end; at = next) {
    next = std::min(end, (at / kCacheRows + 1) * kCacheRows);
    const at::Tensor& block = run.blocks[static_cast<size_t>(at / kCacheRows)];
    all.push_back(block_of(block[layer], which, shape).rows(at % kCacheRows, next - at));
  }
  return all;
}

}  // namespace

int64_t cache_bytes(const CacheShape& shape) {
  return 2 * kCacheRows * shape.kv_heads * (shape.head_dim * kept_size(shape) + (shape.int8 ? 4 : 0));
}

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const CachedRows& rows, int64_t layer, const AttentionOptions& options) {
  AttentionOptions own = options;
  own.dropout = {};
  std::vector<at::Tensor> parts;
  for (const CachedRun& run : rows.runs()) {
    const int64_t end = run.position + run.rows;
    std::vector<at::Tensor> seen;
    for (const auto& [which, from] : {std::pair{0, k}, std::pair{1, v}}) {
      int64_t row = run.begin;
      for (const CachedBlock& to : cached_blocks(run, layer, which, rows.shape(), run.position, end)) {
        to.keep(from.narrow(0, row, to.elements.size(0)));
        row += to.elements.size(0);
      }
      std::vector<at::Tensor> read;
      for (const CachedBlock& block : cached_blocks(run, layer, which, rows.shape(), 0, end))
        read.push_back(block.read());
      seen.push_back(at::cat(read, 0));
    }
    parts.push_back(segment(q.narrow(0, run.begin, run.rows), seen[0], seen[1], run.position, {}, own));
  }
  return at::cat(parts, 0);
}

}  // namespace trl::kernels::plain
