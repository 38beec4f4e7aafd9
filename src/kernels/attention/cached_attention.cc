// Attention over cached keys and values. Work is divided by head of keys, block of positions and lanes, never
// by thread.
#include "kernels/attention/cached_rows.h"
#include "kernels/backend.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

class CachedCall {
 public:
  CachedCall(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const CachedRows& rows,
             int64_t layer, const AttentionOptions& options)
      : q_(q), k_(k), v_(v), rows_(rows), layer_(layer), options_(options) {}

  // Keeps the rows whose keys several tasks read. Divided by head of keys: a block has one writer.
  void keep_shared() const {
    const int64_t heads = k_.size(1);
    if (rows_.shared_parts().empty()) return;
    tensor::parallel_for(heads, q_.size(0) > 16 ? 1 : heads, [&](int64_t begin, int64_t end) {
      for (const CachedRows::Part& part : rows_.shared_parts())
        for (int64_t head = begin; head < end; ++head) keep(part, head);
    });
  }

  at::Tensor attend() const {
    at::Tensor out = tensor::empty_like(q_, MemoryKind::activations);
    const std::vector<CachedRows::Task>& tasks = rows_.tasks();
    const int64_t count = std::ssize(tasks), threads = tensor::threads();
    each_with_work(count, cpu().cached_work(q_.size(2)), [&](int64_t i, float* work) {
      const CachedRows::Task& task = tasks[static_cast<size_t>(i)];
      const CachedRows::Part& part = task.part;
      const int64_t kv_head = task.head / rows_.group();
      if (task.own) keep(part, kv_head);
      const int64_t at = (part.row * q_.size(1) + task.head) * q_.size(2);
      const char* const next =
          i + threads < count ? first_part(tasks[static_cast<size_t>(i + threads)]) : nullptr;
      cpu().cached_attention({at_byte(q_, at), at_byte(out, at), part.blocks, offset(kv_head), part.position,
                              part.rows, task.heads, q_.size(2), q_.size(1) * q_.size(2), options_.window,
                              static_cast<float>(options_.scale), static_cast<float>(options_.softcap),
                              type_of(q_), rows_.shape().int8, next, work});
    });
    return out;
  }

 private:
  void keep(const CachedRows::Part& part, int64_t head) const {
    const int64_t d = k_.size(2), at = (part.row * k_.size(1) + head) * d;
    char* const block = part.blocks[part.position / kCacheRows];
    cpu().cache_write({at_byte(k_, at), at_byte(v_, at), block + offset(head), part.position % kCacheRows,
                       part.rows, d, k_.size(1) * d, type_of(k_), rows_.shape().int8});
  }
  // The part of a block that a task reads first.
  const char* first_part(const CachedRows::Task& task) const {
    const int64_t block_of_rows = task.part.position / kCacheRows * kCacheRows;
    const int64_t first = options_.window > 0 ? std::max<int64_t>(0, block_of_rows - options_.window + 1) : 0;
    return task.part.blocks[first / kCacheRows] + offset(task.head / rows_.group());
  }
  int64_t offset(int64_t kv_head) const {
    return layer_ * rows_.layer_bytes() + rows_.layer_bytes() / k_.size(1) * kv_head;
  }

  const at::Tensor &q_, &k_, &v_;
  const CachedRows& rows_;
  const int64_t layer_;
  const AttentionOptions& options_;
};

}  // namespace

namespace fused_ops {

int64_t cache_bytes(const CacheShape& shape) {
  return shape.kv_heads * cpu().cache_bytes(shape.head_dim, type_of(shape.compute), shape.int8);
}

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const CachedRows& rows, int64_t layer, const AttentionOptions& options) {
  const tensor::Timed timed(tensor::Part::attention);
  const CachedCall call(q, k, v, rows, layer, options);
  call.keep_shared();
  return call.attend();
}

}  // namespace fused_ops

int64_t cache_bytes(const CacheShape& shape, at::Device device) { return backend(device).cache_bytes(shape); }

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const CachedRows& rows, int64_t layer, const AttentionOptions& options) {
  const CacheShape& shape = rows.shape();
  const auto fits = [&](const at::Tensor& x, int64_t heads) {
    return x.dim() == 3 && x.size(0) == rows.rows() && x.size(1) == heads && x.size(2) == shape.head_dim &&
           x.scalar_type() == shape.compute && x.is_contiguous();
  };
  need(fits(q, rows.heads()) && fits(k, shape.kv_heads) && fits(v, shape.kv_heads), "cached_attention",
       "contiguous q [rows, heads, d] and k, v [rows, kv_heads, d] of one type");
  need(layer >= 0 && (rows.runs().empty() || layer < rows.runs()[0].blocks[0].size(0)), "cached_attention",
       "a layer of the blocks");
  return backend(q).cached_attention(q, k, v, rows, layer, options);
}

}  // namespace trl::kernels
