// Attention over documents laid out one behind the other. Work is divided by (document, head), never by
// thread, and gradients of keys that several heads share are added in the order of the heads.
#include "kernels/attention_plugin.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels {

namespace {

struct AttentionState {
  SegmentsPtr segments;
  AttentionOptions options;
};

// A document and one head; for forward also a range of queries. For backward the documents that have it as
// their prefix come with it, so that its keys' gradients are summed in one place and order.
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
        type_(type_of(q)),
        branches_(static_cast<size_t>(documents())) {
    for (int64_t d = 0; d < documents(); ++d) {
      const int64_t p = prefix(d);
      if (p >= 0) branches_[static_cast<size_t>(p)].push_back({start(d) - start(p), length(d)});
    }
  }

  int64_t documents() const { return static_cast<int64_t>(segments_.cu_seqlens.size()) - 1; }
  int64_t start(int64_t document) const { return segments_.cu_seqlens[static_cast<size_t>(document)]; }
  int64_t length(int64_t document) const { return start(document + 1) - start(document); }
  int64_t prefix(int64_t document) const {
    return segments_.prefix.empty() ? -1 : segments_.prefix[static_cast<size_t>(document)];
  }

  // Costliest first, so that no thread is left with a long one at the end.
  std::vector<Task> forward_tasks() const {
    constexpr int64_t kPiece = 256;
    std::vector<Task> all;
    for (int64_t d = 0; d < documents(); ++d) {
      const int64_t before = prefix(d) < 0 ? 0 : length(prefix(d));
      for (int64_t h = 0; h < heads_; ++h) {
        for (int64_t begin = 0; begin < length(d); begin += kPiece) {
          const int64_t end = std::min(length(d), begin + kPiece);
          all.push_back({d, h, begin, end, (end - begin) * (2 * before + begin + end)});
        }
      }
    }
    return costliest_first(std::move(all));
  }
  std::vector<Task> backward_tasks() const {
    std::vector<Task> all;
    for (int64_t d = 0; d < documents(); ++d) {
      if (prefix(d) >= 0) continue;
      int64_t cost = length(d) * length(d);
      for (const Branch& b : branches(d)) cost += b.length * (2 * length(d) + b.length);
      for (int64_t h = 0; h < heads_ && cost > 0; ++h) all.push_back({d, h, 0, length(d), cost});
    }
    return costliest_first(std::move(all));
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
    if (const int64_t p = prefix(t.document); p >= 0) {
      a.prefix_at = start(p) - row;
      a.prefix_length = length(p);
    }
    a.branches = branches(t.document).data();
    a.branch_count = static_cast<int64_t>(branches(t.document).size());
    a.window = options_.window;
    a.scale = static_cast<float>(options_.scale);
    a.softcap = static_cast<float>(options_.softcap);
    a.drop = drop_of(options_.dropout);
    a.row = row;
    a.head = t.head;
    a.heads = heads_;
    a.type = type_;
    a.stopped = base::stopped;
    return a;
  }

 private:
  static std::vector<Task> costliest_first(std::vector<Task> tasks) {
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const Task& a, const Task& b) { return a.cost > b.cost; });
    return tasks;
  }
  const std::vector<Branch>& branches(int64_t document) const {
    return branches_[static_cast<size_t>(document)];
  }

  const Segments& segments_;
  int64_t heads_, group_, head_dim_, kv_heads_;
  AttentionOptions options_;
  Type type_;
  std::vector<std::vector<Branch>> branches_;  // of each document
};

template <typename Body>
void run_tasks(const std::vector<Task>& tasks, int64_t floats, const Body& body) {
  each_with_work(static_cast<int64_t>(tasks.size()), floats,
                 [&](int64_t i, float* work) { body(tasks[static_cast<size_t>(i)], work); });
}

at::Tensor attention_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const Segments& segments, const AttentionOptions& options, at::Tensor& lse) {
  const tensor::Timed timed(tensor::Part::attention);
  at::Tensor out = tensor::empty_like(q, MemoryKind::activations);
  const Layout layout(q, k, segments, options);
  run_tasks(layout.forward_tasks(), cpu().attention_forward_work(q.size(2)),
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
        cpu().add(first, Type::f32, first + g * width, Type::f32, 1, first, width);
      cpu().convert(first, Type::f32, at_byte(sum, row * width), type_of(sum), width);
    }
  });
  return sum;
}

tensor_list attention_backward(const at::Tensor& d_out, const tensor_list& saved,
                               const AttentionState& state) {
  const tensor::Timed timed(tensor::Part::attention);
  const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
  const Segments& segments = *state.segments;
  at::Tensor dq = tensor::empty_like(q, MemoryKind::activations);
  at::Tensor dk = tensor::empty(q.sizes(), at::kFloat, MemoryKind::workspace);
  at::Tensor dv = tensor::empty(q.sizes(), at::kFloat, MemoryKind::workspace);
  const Layout layout(q, k, segments, state.options);
  const std::vector<Task> tasks = layout.backward_tasks();
  int64_t floats = 0;
  for (const Task& task : tasks) {
    if (task.head > 0) continue;
    floats = std::max(floats, cpu().attention_backward_work(layout.args(task, q, k, v, out, lse)));
  }
  run_tasks(tasks, floats, [&](const Task& task, float* work) {
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
  const std::vector<int32_t>& prefix = segments.prefix;
  valid = prefix.empty() || prefix.size() == cu.size() - 1;
  for (size_t i = 0; valid && i < prefix.size(); ++i) {
    valid = prefix[i] == -1 || (prefix[i] >= 0 && prefix[i] < static_cast<int32_t>(i) &&
                                prefix[static_cast<size_t>(prefix[i])] == -1);
  }
  need(valid, "attention", "a prefix must be -1 or the number of an earlier document that has none");
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const SegmentsPtr& segments, const AttentionOptions& options) {
  check(q, k, v, *segments);
  check_rate(options.dropout);
  if (options.plugin != nullptr) return plugin_attention(q, k, v, segments, options);
  if (!fused(q)) return plain::attention(q, k, v, segments, options);
  if (records(q) || records(k) || records(v)) return AttentionFunction::apply(q, k, v, segments, options);
  at::Tensor lse = tensor::empty({q.size(1), q.size(0)}, at::kFloat, MemoryKind::workspace);
  return attention_forward(q, k, v, *segments, options, lse);
}

}  // namespace trl::kernels
