// Helpers that every op of this room needs besides its kernel: checks of its tensors, and counted memory.
#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/kernels.h"
#include "kernels/path.h"
#include "tensor/memory/counted.h"
#include "tensor/parameter/use.h"
#include "tensor/saved.h"
#include "tensor/threads/parallel.h"

namespace trl::kernels {

using tensor::MemoryKind;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

inline Type type_of(at::ScalarType type) {
  if (type == at::kFloat) return Type::f32;
  if (type == at::kBFloat16) return Type::bf16;
  fail(Status::unsupported, "a kernel was given type {}: float32 and bfloat16 are supported",
       c10::toString(type));
}
inline Type type_of(const at::Tensor& x) { return type_of(x.scalar_type()); }

inline at::ScalarType scalar_type(Type type) { return type == Type::f32 ? at::kFloat : at::kBFloat16; }

// Checks shapes: a wrong shape is a bug of the engine, never the user's fault.
inline void need(bool condition, const char* op, const char* what) {
  if (!condition) fail(Status::internal, "{}: {}", op, what);
}

// Whether a graph is recorded through x.
inline bool records(const at::Tensor& x) { return at::GradMode::is_enabled() && x.requires_grad(); }

// A tensor from which a graph begins.
inline at::Tensor graph_start() { return at::zeros({}, at::kFloat).requires_grad_(); }

// The value, rounded to the type.
inline double rounded(double value, at::ScalarType type) {
  if (type == at::kDouble) return value;
  const auto single = static_cast<float>(value);
  return type == at::kBFloat16 ? static_cast<float>(at::BFloat16(single)) : single;
}

inline int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

inline char* at_byte(const at::Tensor& x, int64_t element) {
  return static_cast<char*>(x.data_ptr()) + element * static_cast<int64_t>(x.element_size());
}

inline at::Tensor scalar(double value) {
  at::Tensor out = tensor::empty({}, at::kFloat, MemoryKind::activations);
  *out.data_ptr<float>() = static_cast<float>(value);
  return out;
}

// Calls body(begin, end) over elements, cut at multiples of kPiece whatever the number of threads.
template <typename Body>
void parallel_elements(int64_t count, const Body& body) {
  constexpr int64_t kPiece = 8192;
  tensor::parallel_for((count + kPiece - 1) / kPiece, 4, [&](int64_t begin, int64_t end) {
    body(begin * kPiece, std::min(end * kPiece, count));
  });
}

// Calls body(i, work) for each i in [0, count), each taken by the next free thread, with work memory of
// `floats` floats for each thread. Ends early between two of them, by Error(cancelled).
template <typename Body>
void each_with_work(int64_t count, int64_t floats, const Body& body) {
  const int64_t width = std::min<int64_t>(tensor::threads(), count);
  if (width == 0) return;
  floats = (floats + 15) / 16 * 16;
  const at::Tensor work = tensor::empty({width * floats}, at::kFloat, MemoryKind::workspace);
  std::atomic<int64_t> place{0}, next{0};
  tensor::parallel_for(width, 1, [&](int64_t, int64_t) {
    float* const mine = work.data_ptr<float>() + place.fetch_add(1) * floats;
    for (int64_t i = next.fetch_add(1); i < count && !base::stopped(); i = next.fetch_add(1)) body(i, mine);
  });
}

void convert(const at::Tensor& from, const at::Tensor& to);  // both of one size
void add_to(const at::Tensor& from, const at::Tensor& to);   // both of one size; rounded once
// x in `type`: a copy, or x itself if it has that type.
at::Tensor converted(const at::Tensor& x, at::ScalarType type, MemoryKind kind);
inline tensor::Reading read(Parameter& w, at::ScalarType type) { return w.read(type, &convert); }
// The gradient of a branch from dy, the gradient of stream + scale * branch, in the branch's type.
at::Tensor branch_gradient(const at::Tensor& dy, at::ScalarType type, double scale);
// dropout() without a graph, of a value or of a gradient. words: if not null, gets one bit for each element,
// set if it is kept: int16 [rows, width / 16, rounded up].
at::Tensor dropped(const at::Tensor& x, const Dropout& dropout, at::Tensor* words = nullptr);
// The result of dropout with these words, without drawing; the function after it adds that to y in place.
at::Tensor dropped(const at::Tensor& x, const Dropout& dropout, const at::Tensor& words);
void add_dropped(const at::Tensor& x, const Dropout& dropout, const at::Tensor& words, at::Tensor& y);
inline void check_rate(const Dropout& dropout) {
  need(dropout.rate >= 0 && dropout.rate <= 1, "dropout", "a rate from 0 to 1 is needed");
}
inline Drop drop_of(const Dropout& dropout) {
  return {dropout.key, static_cast<int32_t>(std::lround(dropout.rate * 0x1p24)),
          dropout.rate < 1 ? static_cast<float>(1 / (1 - dropout.rate)) : 0.0f, dropout.row};
}
// gated() of [gate | up] without a graph, and the gradient of [gate | up].
at::Tensor gated_rows(Activation kind, const at::Tensor& gate_up);
at::Tensor gated_rows_backward(Activation kind, const at::Tensor& dy, const at::Tensor& gate_up);
// sum[c] += x[r, c]; each column is summed by one thread, in the order of the rows.
void add_column_sums(const at::Tensor& x, at::Tensor& sum);
// The float32 sum that takes the pieces of a gradient's gain: a float32 gradient itself, else zeros that are
// added to it later.
inline at::Tensor wide_sum(const at::Tensor& gradient) {
  if (gradient.scalar_type() == at::kFloat) return gradient;
  return tensor::zeros(gradient.sizes(), at::kFloat, MemoryKind::workspace);
}
// Calls body(first, count, sum), which adds the part of some rows to a float32 sum over all rows, piece by
// piece.
template <typename Body>
void add_in_pieces(int64_t rows, at::Tensor& gradient, const Body& body) {
  at::Tensor sum = wide_sum(gradient);
  for (int64_t first = 0; first < rows; first += kSumPiece)
    body(first, std::min(kSumPiece, rows - first), sum);
  if (!sum.is_same(gradient)) add_to(sum, gradient);
}
// y = x w^T + b for a handful of rows, several of them in one pass; float32 or bfloat16, float32 sums.
struct SkinnyProduct {
  at::Tensor w, bias, y;  // bias: may be undefined
  // Instead of w: the rows from first_row on, as many as y has columns.
  const tensor::Encoded* encoded = nullptr;
  int64_t first_row = 0;
  const NarrowWeight* narrow = nullptr;  // instead of w: a copy, all its rows
};
void skinny_products(const at::Tensor& x, at::ArrayRef<SkinnyProduct> products);
inline constexpr int64_t kSkinnyRows = 16;

// C++ state of a graph node, kept in AutogradContext::saved_data.
template <typename State>
struct Capsule : torch::CustomClassHolder {
  explicit Capsule(State s) : state(std::move(s)) {}
  State state;
};
template <typename State>
void keep(AutogradContext* context, State state) {
  context->saved_data["state"] =
      at::IValue::make_capsule(c10::make_intrusive<Capsule<State>>(std::move(state)));
}
template <typename State>
State& kept(AutogradContext* context) {
  const auto capsule = context->saved_data["state"].toCapsule();
  return static_cast<Capsule<State>*>(capsule.get())->state;  // saved_data holds it
}

// Tensors that a node of a graph keeps until its backward and no longer, although nodes live until the end of
// their graph. They pass through the policy of tensor/saved.h; by: the op's name for it. Backward takes each
// of them once.
template <typename State>
State taken(AutogradContext* context, const char* key) {
  const auto entry = context->saved_data.find(key);
  if (entry == context->saved_data.end())
    fail(Status::internal, "backward ran a second time through a graph that no longer keeps anything");
  const auto capsule = entry->second.toCapsule();
  State state = std::move(static_cast<Capsule<State>*>(capsule.get())->state);
  context->saved_data.erase(entry);
  return state;
}
inline std::vector<tensor::Saved> saved(const tensor_list& tensors, std::string_view by) {
  std::vector<tensor::Saved> all;
  for (const at::Tensor& x : tensors) all.emplace_back(x, by);
  return all;
}
inline tensor_list brought(const std::vector<tensor::Saved>& saved) {
  tensor_list tensors;
  for (const tensor::Saved& x : saved) tensors.push_back(x.get());
  return tensors;
}

inline void keep(AutogradContext* context, std::string_view by, const tensor_list& tensors) {
  context->saved_data["tensors"] =
      at::IValue::make_capsule(c10::make_intrusive<Capsule<std::vector<tensor::Saved>>>(saved(tensors, by)));
}
inline tensor_list kept(AutogradContext* context) {
  return brought(taken<std::vector<tensor::Saved>>(context, "tensors"));
}

// The way to make a tensor again, instead of keeping it.
struct Recipe {
  std::vector<tensor::Saved> from;
  std::function<at::Tensor(const tensor_list&)> make;
};
inline void keep(AutogradContext* context, std::string_view by, const Again& again) {
  context->saved_data["again"] = at::IValue::make_capsule(
      c10::make_intrusive<Capsule<Recipe>>(Recipe{saved(again.from, by), again.make}));
}
inline bool has_recipe(AutogradContext* context) { return context->saved_data.count("again") > 0; }
inline at::Tensor made_again(AutogradContext* context) {
  const Recipe recipe = taken<Recipe>(context, "again");
  const at::NoGradGuard no_grad;
  return recipe.make(brought(recipe.from));
}

}  // namespace trl::kernels
