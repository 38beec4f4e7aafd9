// Attention over cached keys and values. Work is divided by head of keys, block of positions and lanes, never
// by thread.
#include <algorithm>
#include <vector>

#include "kernels/backend.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

// Rows of a run in one block of positions, and heads with the same keys.
struct Lanes {
  size_t run;
  int64_t row, rows, head, heads;
  int64_t cost() const { return rows; }
};

int64_t position_of(const CachedRun& run, int64_t row) { return run.position + row - run.begin; }

// Calls body(run, first row, rows) for the rows of each block of positions.
template <typename Body>
void each_part(at::ArrayRef<CachedRun> runs, const Body& body) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const CachedRun& run = runs[i];
    for (int64_t row = run.begin, count; row < run.begin + run.rows; row += count) {
      count = std::min(run.begin + run.rows - row, kCacheRows - position_of(run, row) % kCacheRows);
      body(i, row, count);
    }
  }
}

class CachedCall {
 public:
  CachedCall(const at::Tensor& q, const at::Tensor& k, at::ArrayRef<CachedRun> runs, int64_t layer,
             const AttentionOptions& options)
      : q_(q), runs_(runs), layer_(layer), kv_heads_(k.size(1)), options_(options) {
    for (const CachedRun& run : runs) {
      std::vector<char*>& own = blocks_.emplace_back();
      for (const at::Tensor& block : run.blocks) own.push_back(static_cast<char*>(block.data_ptr()));
    }
  }

  // Divided by head of keys: a block has one writer.
  void write(const at::Tensor& k, const at::Tensor& v) const {
    tensor::parallel_for(kv_heads_, k.size(0) > 16 ? 1 : kv_heads_, [&](int64_t begin, int64_t end) {
      each_part(runs_, [&](size_t run, int64_t row, int64_t rows) {
        const int64_t position = position_of(runs_[run], row);
        char* const block = blocks_[run][static_cast<size_t>(position / kCacheRows)];
        for (int64_t head = begin; head < end; ++head) {
          const int64_t at = (row * kv_heads_ + head) * q_.size(2);
          cpu().cache_write({at_byte(k, at), at_byte(v, at), block + offset(head), position % kCacheRows,
                             rows, q_.size(2), kv_heads_ * q_.size(2), type_of(q_)});
        }
      });
    });
  }

  at::Tensor attend() const {
    at::Tensor out = tensor::empty_like(q_, MemoryKind::activations);
    const std::vector<Lanes> all = lanes();
    each_with_work(std::ssize(all), cpu().cached_work(q_.size(2)), [&](int64_t i, float* work) {
      const Lanes& one = all[static_cast<size_t>(i)];
      const int64_t at = (one.row * q_.size(1) + one.head) * q_.size(2);
      cpu().cached_attention({at_byte(q_, at), at_byte(out, at), blocks_[one.run].data(),
                              offset(one.head / group()), position_of(runs_[one.run], one.row), one.rows,
                              one.heads, q_.size(2), q_.size(1) * q_.size(2), options_.window,
                              static_cast<float>(options_.scale), static_cast<float>(options_.softcap),
                              type_of(q_), work});
    });
    return out;
  }

 private:
  int64_t group() const { return q_.size(1) / kv_heads_; }
  int64_t offset(int64_t kv_head) const {
    const auto bytes = static_cast<int64_t>(q_.element_size());
    return (layer_ * kv_heads_ + kv_head) * cpu().cache_elements(q_.size(2), type_of(q_)) * bytes;
  }
  // The longest first, so that no thread is left with a long one at the end.
  std::vector<Lanes> lanes() const {
    std::vector<Lanes> all;
    each_part(runs_, [&](size_t run, int64_t row, int64_t rows) {
      const int64_t most = std::clamp<int64_t>(kCacheRows / rows, 1, group());
      for (int64_t kv = 0; kv < kv_heads_; ++kv)
        for (int64_t h = 0; h < group(); h += most)
          all.push_back({run, row, rows, kv * group() + h, std::min(most, group() - h)});
    });
    const auto cost = [&](const Lanes& x) { return position_of(runs_[x.run], x.row) + x.rows * x.heads; };
    std::ranges::stable_sort(all, [&](const Lanes& a, const Lanes& b) { return cost(a) > cost(b); });
    return all;
  }

  const at::Tensor& q_;
  const at::ArrayRef<CachedRun> runs_;
  const int64_t layer_, kv_heads_;
  const AttentionOptions& options_;
  std::vector<std::vector<char*>> blocks_;
};

}  // namespace

namespace fused_ops {

int64_t cache_elements(const CacheShape& shape) {
  return shape.kv_heads * cpu().cache_elements(shape.head_dim, type_of(shape.type));
}

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            at::ArrayRef<CachedRun> runs, int64_t layer, const AttentionOptions& options) {
  const tensor::Timed timed(tensor::Part::attention);
  const CachedCall call(q, k, runs, layer, options);
  call.write(k, v);
  return call.attend();
}

}  // namespace fused_ops

int64_t cache_elements(const CacheShape& shape, at::Device device) {
  return backend(device).cache_elements(shape);
}

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            at::ArrayRef<CachedRun> runs, int64_t layer, const AttentionOptions& options) {
  need(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
           q.size(2) == k.size(2) && k.size(1) > 0 && q.size(1) % k.size(1) == 0 && q.is_contiguous() &&
           k.is_contiguous() && v.is_contiguous() && q.scalar_type() == k.scalar_type() &&
           q.scalar_type() == v.scalar_type(),
       "cached_attention", "contiguous q [rows, heads, d] and k, v [rows, kv_heads, d] of one type");
  const int64_t elements = cache_elements({k.size(1), k.size(2), k.scalar_type()}, q.device());
  int64_t rows = 0;
  for (const CachedRun& run : runs) {
    const int64_t end = run.position + run.rows;
    const auto fits = [&](const at::Tensor& block) {
      return block.dim() == 2 && block.size(0) > layer && block.size(1) == elements &&
             block.scalar_type() == k.scalar_type() && block.is_contiguous();
    };
    need(run.begin == rows && run.rows > 0 && run.position >= 0 &&
             std::ssize(run.blocks) >= (end + kCacheRows - 1) / kCacheRows &&
             std::ranges::all_of(run.blocks, fits),
         "cached_attention",
         "runs of all rows in order, each with blocks [layers, elements] of its positions");
    rows += run.rows;
  }
  need(rows == q.size(0), "cached_attention", "runs of all rows");
  return backend(q).cached_attention(q, k, v, runs, layer, options);
}

}  // namespace trl::kernels
