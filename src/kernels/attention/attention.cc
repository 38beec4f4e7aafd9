// Attention over trees of segments, one after the other in the batch; a document is a tree of one segment.
// Work is divided by (tree, head), never by thread, and gradients of keys that several heads share are added
// in the order of the heads.
#include <chrono>
#include <thread>

#include "kernels/attention/attention_plugin.h"
#include "kernels/attention/tree_rows.h"
#include "kernels/backend.h"
#include "kernels/kept_outputs.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

struct AttentionState {
  SegmentsPtr segments;
  AttentionOptions options;
};

// A tree and one head; in forward also a range of queries.
struct Task {
  int64_t tree, head, begin, end, cost;
};

class Layout {
 public:
  Layout(const at::Tensor& q, const at::Tensor& k, const Segments& segments, const AttentionOptions& options)
      : rows_(segments),
        heads_(q.size(1)),
        group_(q.size(1) / k.size(1)),
        head_dim_(q.size(2)),
        kv_heads_(k.size(1)),
        options_(options),
        type_(type_of(q)) {}

  int64_t trees() const { return std::ssize(rows_.starts) - 1; }
  int64_t start(int64_t tree) const { return rows_.starts[static_cast<size_t>(tree)]; }
  int64_t length(int64_t tree) const { return start(tree + 1) - start(tree); }
  int64_t group() const { return group_; }
  int64_t kv_heads() const { return kv_heads_; }

  // Sorted by falling cost, so that no thread is left with a long one at the end.
  std::vector<Task> forward_tasks() const { return tasks(256); }
  std::vector<Task> backward_tasks() const { return tasks(INT64_MAX); }

  Attention args(const Task& t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const at::Tensor& out, const at::Tensor& lse) const {
    const int64_t row = start(t.tree);
    const int64_t q_at = (row * heads_ + t.head) * head_dim_;
    const int64_t kv_at = (row * kv_heads_ + t.head / group_) * head_dim_;
    Attention a{};
    a.q = at_byte(q, q_at);
    a.k = at_byte(k, kv_at);
    a.v = at_byte(v, kv_at);
    a.out = at_byte(out, q_at);
    a.lse = lse.data_ptr<float>() + t.head * lse.size(1) + row;
    a.length = length(t.tree);
    a.head_dim = head_dim_;
    a.q_stride = heads_ * head_dim_;
    a.kv_stride = kv_heads_ * head_dim_;
    if (!rows_.until.empty()) {
      a.until = rows_.until.data() + row;
      a.position = rows_.position.data() + row;
    }
    a.window = options_.window;
    a.scale = static_cast<float>(options_.scale);
    a.softcap = static_cast<float>(options_.softcap);
    a.drop = drop_of(options_.dropout);
    a.row = options_.dropout.row + row;
    a.head = t.head;
    a.heads = heads_;
    a.type = type_;
    a.stopped = base::stopped;
    return a;
  }

 private:
  // Cuts into pieces of at most this many queries.
  std::vector<Task> tasks(int64_t piece) const {
    std::vector<Task> all;
    for (int64_t t = 0; t < trees(); ++t) {
      for (int64_t begin = 0; begin < length(t);) {
        const int64_t end = begin + std::min(length(t) - begin, piece), cost = this->cost(t, begin, end);
        for (int64_t h = 0; h < heads_; ++h) all.push_back({t, h, begin, end, cost});
        begin = end;
      }
    }
    std::ranges::stable_sort(all, [](const Task& a, const Task& b) { return a.cost > b.cost; });
    return all;
  }
  int64_t cost(int64_t tree, int64_t begin, int64_t end) const {
    if (rows_.position.empty()) return (end - begin) * (begin + end);
    int64_t sum = 0;
    for (int64_t row = start(tree) + begin; row < start(tree) + end; ++row)
      sum += 2 * rows_.position[static_cast<size_t>(row)] + 1;
    return sum;
  }

  const TreeRows rows_;
  int64_t heads_, group_, head_dim_, kv_heads_;
  AttentionOptions options_;
  Type type_;
};

// A pair of tokens takes 4 d operations forward and 10 d backward; costs count the pairs of a square.
void note(const std::vector<Task>& tasks, const at::Tensor& q, double operations) {
  tensor::Rehearsal* const rehearsal = tensor::Rehearsal::current();
  if (rehearsal == nullptr) return;
  double pairs = 0;
  for (const Task& task : tasks) pairs += static_cast<double>(task.cost) / 2;
  const double flops = operations * pairs * static_cast<double>(q.size(2));
  rehearsal->note({tensor::Job::attention, {}, 0, 0, q.size(2), q.element_size()}, flops, flops);
}

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
  const std::vector<Task> tasks = layout.forward_tasks();
  note(tasks, q, 4);
  run_tasks(tasks, cpu().attention_forward_work(q.size(2)), [&](const Task& task, float* work) {
    Attention args = layout.args(task, q, k, v, out, lse);
    args.work = work;
    cpu().attention_forward(args, task.begin, task.end);
  });
  return out;
}

// The gradient of keys, or of values, [rows, d] of each task's tree: each task makes the part of one query
// head. Heads that share keys add their parts in order.
class KeyGradient {
 public:
  KeyGradient(const at::Tensor& like, const Layout& layout)
      : layout_(layout), whole_(tensor::empty_like(like, MemoryKind::activations)) {
    if (layout.group() > 1) sums_ = tensor::empty(like.sizes(), at::kFloat, MemoryKind::workspace);
  }

  void add(const Task& task, const float* own) {
    const int64_t place = task.head % layout_.group(), d = whole_.size(2);
    const int64_t first = layout_.start(task.tree) * whole_.size(1) + task.head / layout_.group();
    const bool last = place + 1 == layout_.group();
    for (int64_t row = 0; row < layout_.length(task.tree); ++row) {
      const int64_t at = (first + row * whole_.size(1)) * d;
      const float* from = own + row * d;
      if (place > 0) {
        float* const sum = sums_.data_ptr<float>() + at;
        cpu().add(sum, Type::f32, from, Type::f32, 1, sum, d);
        from = sum;
      }
      if (last)
        cpu().convert(from, Type::f32, at_byte(whole_, at), type_of(whole_), d);
      else if (place == 0)
        std::memcpy(sums_.data_ptr<float>() + at, from, static_cast<size_t>(d) * 4);
    }
  }
  const at::Tensor& whole() const { return whole_; }

 private:
  const Layout& layout_;
  const at::Tensor whole_;
  at::Tensor sums_;  // sums over the heads so far, if several share keys
};

// Gives turns to the heads that share the keys of a tree. Tasks are begun in the order of the heads, so that
// the task that others wait for is running.
class Turns {
 public:
  explicit Turns(const Layout& layout)
      : layout_(layout), next_(static_cast<size_t>(layout.trees() * layout.kv_heads())) {}
  // Calls body() once the heads before have finished; not at all if the call has been stopped.
  template <typename Body>
  void take(const Task& task, const Body& body) {
    std::atomic<int64_t>& next =
        next_[static_cast<size_t>(task.tree * layout_.kv_heads() + task.head / layout_.group())];
    while (next.load(std::memory_order_acquire) != task.head % layout_.group()) {
      if (base::stopped()) return;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    body();
    next.fetch_add(1, std::memory_order_release);
  }

 private:
  const Layout& layout_;
  std::vector<std::atomic<int64_t>> next_;
};

tensor_list attention_backward(const at::Tensor& d_out, const tensor_list& saved,
                               const AttentionState& state) {
  const tensor::Timed timed(tensor::Part::attention);
  const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
  const Segments& segments = *state.segments;
  at::Tensor dq = tensor::empty_like(q, MemoryKind::activations);
  const Layout layout(q, k, segments, state.options);
  KeyGradient dk(k, layout), dv(v, layout);
  Turns turns(layout);
  const std::vector<Task> tasks = layout.backward_tasks();
  note(tasks, q, 10);
  int64_t floats = 0, own = 0;
  for (const Task& task : tasks) {
    if (task.head > 0) continue;
    floats = std::max(floats, cpu().attention_backward_work(layout.args(task, q, k, v, out, lse)));
    own = std::max(own, round_up(layout.length(task.tree) * q.size(2), 16));
  }
  run_tasks(tasks, floats + 2 * own, [&](const Task& task, float* work) {
    Attention args = layout.args(task, q, k, v, out, lse);
    const int64_t at = (layout.start(task.tree) * q.size(1) + task.head) * q.size(2);
    args.d_out = at_byte(d_out, at);
    args.dq = at_byte(dq, at);
    args.dk = work;
    args.dv = work + own;
    args.work = work + 2 * own;
    cpu().attention_backward(args);
    turns.take(task, [&] {
      dk.add(task, args.dk);
      dv.add(task, args.dv);
    });
  });
  return {dq, dk.whole(), dv.whole(), {}, {}};
}

// The output of attention, and the log of the sum of its weights for each head and row.
tensor_list attention_outputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const Segments& segments, const AttentionOptions& options) {
  return made(Output::attention, "attention", [&] {
    at::Tensor lse = tensor::empty({q.size(1), q.size(0)}, at::kFloat, MemoryKind::activations);
    at::Tensor out = attention_forward(q, k, v, segments, options, lse);
    return tensor_list{out, lse};
  });
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const SegmentsPtr& segments,
                            const AttentionOptions& options) {
    const tensor_list made = attention_outputs(q, k, v, *segments, options);
    keep(context, "attention", {q, k, v, made[0], made[1]});
    keep(context, AttentionState{segments, options});
    return made[0];
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    return attention_backward(grads[0].contiguous(), kept(context), kept<AttentionState>(context));
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
  for (size_t i = 1; valid && i < cu.size(); ++i)
    valid = cu[i] >= cu[i - 1] && cu[i] - cu[i - 1] <= segments.max_length;
  need(valid, "attention",
       "cu_seqlens must rise from 0 to the number of tokens, in steps of at most max_length");
  need(segments.prefix.empty() || segments.prefix.size() == cu.size() - 1, "attention",
       "a prefix of each segment, or none at all, is needed");
  need(segments.padding.empty() || segments.padding.size() == cu.size() - 1, "attention",
       "the padding of each segment, or none at all, is needed");
  check_order(segments);
}

}  // namespace

namespace fused_ops {

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const SegmentsPtr& segments, const AttentionOptions& options) {
  if (records(q) || records(k) || records(v)) return AttentionFunction::apply(q, k, v, segments, options);
  return attention_outputs(q, k, v, *segments, options)[0];
}

}  // namespace fused_ops

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const SegmentsPtr& segments, const AttentionOptions& options) {
  check(q, k, v, *segments);
  check_rate(options.dropout);
  if (options.plugin != nullptr) return plugin_attention(q, k, v, segments, options);
  return backend(q).attention(q, k, v, segments, options);
}

}  // namespace trl::kernels
