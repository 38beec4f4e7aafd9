// Attention over documents laid out one behind the other. Work is divided by (document, head), never by
// thread, and gradients of keys that several heads share are added in the order of the heads.
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels {

namespace {

struct AttentionState {
  SegmentsPtr segments;
  AttentionOptions options;
};

// A document and one head; for forward also a range of queries.
struct Task {
  int64_t document, head, begin, end, cost;
};

class Layout {
 public:
  Layout(const at::Tensor& q, const at::Tensor& k, const Segments& segments, const AttentionOptions& options)
      : segments_(segments),
        heads_(q.size(1)),
        group_(q.size(1) / k.size(1)),
        head_dim_(q.size(2)),
        kv_heads_(k.size(1)),
        options_(options),
        type_(type_of(q)) {}

  int64_t documents() const { return static_cast<int64_t>(segments_.cu_seqlens.size()) - 1; }
  int64_t start(int64_t document) const { return segments_.cu_seqlens[static_cast<size_t>(document)]; }
  int64_t length(int64_t document) const { return start(document + 1) - start(document); }

  // Costliest first, so that no thread is left with a long one at the end. piece: queries of a task, 0: all.
  std::vector<Task> tasks(int64_t piece) const {
    std::vector<Task> all;
    for (int64_t d = 0; d < documents(); ++d) {
      const int64_t step = piece > 0 ? piece : std::max<int64_t>(1, length(d));
      for (int64_t h = 0; h < heads_; ++h) {
        for (int64_t begin = 0; begin < length(d); begin += step) {
          const int64_t end = std::min(length(d), begin + step);
          all.push_back({d, h, begin, end, (end - begin) * (begin + end)});
        }
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Task& a, const Task& b) { return a.cost > b.cost; });
    return all;
  }

  Attention args(const Task& t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const at::Tensor& out, const at::Tensor& lse) const {
    const int64_t row = start(t.document);
    const int64_t q_at = (row * heads_ + t.head) * head_dim_;
    const int64_t kv_at = (row * kv_heads_ + t.head / group_) * head_dim_;
    Attention a{};
    a.q = at_byte(q, q_at);
    a.k = at_byte(k, kv_at);
    a.v = at_byte(v, kv_at);
    a.out = at_byte(out, q_at);
    a.lse = lse.data_ptr<float>() + t.head * lse.size(1) + row;
    a.length = length(t.document);
    a.head_dim = head_dim_;
    a.q_stride = heads_ * head_dim_;
    a.kv_stride = kv_heads_ * head_dim_;
    a.window = options_.window;
    a.scale = static_cast<float>(options_.scale);
    a.type = type_;
    return a;
  }

 private:
  const Segments& segments_;
  int64_t heads_, group_, head_dim_, kv_heads_;
  AttentionOptions options_;
  Type type_;
};

// body(task, work) with a place of `floats` for each thread; tasks go to whichever thread is free.
template <typename Body>
void run_tasks(const std::vector<Task>& tasks, int64_t floats, const Body& body) {
  const int64_t width = std::min<int64_t>(tensor::threads(), static_cast<int64_t>(tasks.size()));
  if (width == 0) return;
  floats = (floats + 15) / 16 * 16;
  at::Tensor work = tensor::empty({width * floats}, at::kFloat, MemoryKind::workspace);
  std::atomic<int64_t> place{0}, next{0};
  tensor::parallel_for(width, 1, [&](int64_t, int64_t) {
    float* const mine = work.data_ptr<float>() + place.fetch_add(1) * floats;
    for (size_t i; (i = static_cast<size_t>(next.fetch_add(1))) < tasks.size();) body(tasks[i], mine);
  });
}

at::Tensor attention_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const Segments& segments, const AttentionOptions& options, at::Tensor& lse) {
  constexpr int64_t kPiece = 256;
  at::Tensor out = tensor::empty_like(q, MemoryKind::activations);
  const Layout layout(q, k, segments, options);
  run_tasks(layout.tasks(kPiece), cpu().attention_forward_work(q.size(2)),
            [&](const Task& task, float* work) {
              Attention args = layout.args(task, q, k, v, out, lse);
              args.work = work;
              cpu().attention_forward(args, task.begin, task.end);
            });
  return out;
}

// [tokens, heads, d] float32, summed over the heads of a group, to [tokens, kv_heads, d]
at::Tensor sum_groups(const at::Tensor& x, const at::Tensor& like) {
  const int64_t kv_heads = like.size(1), group = x.size(1) / kv_heads, width = x.size(2);
  at::Tensor sum = tensor::empty_like(like, MemoryKind::activations);
  tensor::parallel_for(x.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * kv_heads; row < end * kv_heads; ++row) {
      float* const first = x.data_ptr<float>() + row * group * width;
      for (int64_t g = 1; g < group; ++g)
        cpu().add(first, Type::f32, first + g * width, Type::f32, first, width);
      cpu().convert(first, Type::f32, at_byte(sum, row * width), type_of(sum), width);
    }
  });
  return sum;
}

tensor_list attention_backward(const at::Tensor& d_out, const tensor_list& saved,
                               const AttentionState& state) {
  const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
  const Segments& segments = *state.segments;
  at::Tensor dq = tensor::empty_like(q, MemoryKind::activations);
  at::Tensor dk = tensor::empty(q.sizes(), at::kFloat, MemoryKind::workspace);
  at::Tensor dv = tensor::empty(q.sizes(), at::kFloat, MemoryKind::workspace);
  const Layout layout(q, k, segments, state.options);
  run_tasks(layout.tasks(0), cpu().attention_backward_work(segments.max_length, q.size(2)),
            [&](const Task& task, float* work) {
              Attention args = layout.args(task, q, k, v, out, lse);
              const int64_t at = (layout.start(task.document) * q.size(1) + task.head) * q.size(2);
              args.d_out = at_byte(d_out, at);
              args.dq = at_byte(dq, at);
              args.dk = dk.data_ptr<float>() + at;
              args.dv = dv.data_ptr<float>() + at;
              args.work = work;
              cpu().attention_backward(args);
            });
  at::Tensor dk_sum = sum_groups(dk, k);
  dk.reset();
  return {dq, dk_sum, sum_groups(dv, v), {}, {}};
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const SegmentsPtr& segments,
                            const AttentionOptions& options) {
    at::Tensor lse = tensor::empty({q.size(1), q.size(0)}, at::kFloat, MemoryKind::activations);
    at::Tensor out = attention_forward(q, k, v, *segments, options, lse);
    context->save_for_backward({q, k, v, out, lse});
    keep(context, AttentionState{segments, options});
    return out;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    return attention_backward(grads[0].contiguous(), context->get_saved_variables(),
                              kept<AttentionState>(context));
  }
};

void check(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Segments& segments) {
  need(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
           q.size(2) == k.size(2) && k.size(1) > 0 && q.size(1) % k.size(1) == 0 && q.is_contiguous() &&
           k.is_contiguous() && v.is_contiguous() && q.scalar_type() == k.scalar_type() &&
           q.scalar_type() == v.scalar_type(),
       "attention", "contiguous q [tokens, heads, d] and k, v [tokens, kv_heads, d] of one type are needed");
  const std::vector<int32_t>& cu = segments.cu_seqlens;
  bool valid = !cu.empty() && cu.front() == 0 && cu.back() == q.size(0);
  for (size_t i = 1; valid && i < cu.size(); ++i) {
    valid = cu[i] >= cu[i - 1] && cu[i] - cu[i - 1] <= segments.max_length;
  }
  need(valid, "attention",
       "cu_seqlens must rise from 0 to the number of tokens, in steps of at most max_length");
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const SegmentsPtr& segments, const AttentionOptions& options) {
  check(q, k, v, *segments);
  if (!fused(q)) return plain::attention(q, k, v, segments, options);
  if (records(q) || records(k) || records(v)) return AttentionFunction::apply(q, k, v, segments, options);
  at::Tensor lse = tensor::empty({q.size(1), q.size(0)}, at::kFloat, MemoryKind::workspace);
  return attention_forward(q, k, v, *segments, options, lse);
}

void attention_decode(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, int64_t length,
                      const AttentionOptions& options, at::Tensor& out) {
  need(q.dim() == 2 && keys.dim() == 3 && keys.sizes() == values.sizes() && q.size(1) == keys.size(2) &&
           length > 0 && length <= keys.size(0) && q.size(0) % keys.size(1) == 0 &&
           out.sizes() == q.sizes() && q.is_contiguous() && keys.is_contiguous() && values.is_contiguous() &&
           out.is_contiguous() && q.scalar_type() == keys.scalar_type() &&
           q.scalar_type() == values.scalar_type() && q.scalar_type() == out.scalar_type(),
       "attention_decode",
       "q, out [heads, d] and keys, values [at least length, kv_heads, d] of one type are needed");
  if (!fused(q)) return plain::attention_decode(q, keys, values, length, options, out);
  const int64_t heads = q.size(0), kv_heads = keys.size(1), width = q.size(1), stride = kv_heads * width;
  const int64_t first = options.window > 0 ? std::max<int64_t>(0, length - options.window) : 0;
  at::Tensor scores = tensor::empty({heads, length - first}, at::kFloat, MemoryKind::workspace);
  tensor::parallel_for(heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      const int64_t kv = first * stride + h / (heads / kv_heads) * width;
      cpu().attention_decode(at_byte(q, h * width), at_byte(keys, kv), at_byte(values, kv),
                             at_byte(out, h * width), scores.data_ptr<float>() + h * (length - first),
                             length - first, width, stride, static_cast<float>(options.scale), type_of(q));
    }
  });
}

}  // namespace trl::kernels
