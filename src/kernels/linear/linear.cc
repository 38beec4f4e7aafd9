// Linear layers and the embedding: the ops that own large weights. Gradients of weights are added directly to
// their buffers, in their types, by a product that accumulates.
#include <array>

#include "base/arithmetic/counter_random.h"
#include "kernels/backend.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kept_outputs.h"
#include "kernels/linear/low_rank.h"
#include "kernels/op.h"
#include "kernels/weight/weight_product.h"
#include "tensor/device.h"

namespace trl::kernels {

namespace {

using Projections = std::vector<Projection>;

struct LinearState {
  Projections projections;
  std::vector<tensor::Use> weights, biases;  // one for each projection
  LowRankTerms low_rank;
  at::ScalarType x_type, compute;
};

bool is_defined(const at::Tensor& x) { return x.defined(); }

// terms_keep: gets the tensors that the terms need in backward; null: no backward.
tensor_list outputs_of(const at::Tensor& x, LowRankTerms& terms, at::ArrayRef<Projection> projections,
                       tensor_list* terms_keep, Wanted wanted) {
  if (wanted != Wanted::values || terms.has_magnitudes())
    return terms.project(x, projections, terms_keep, wanted);
  tensor_list all = made(Output::product, "linear", [&] {
    tensor_list keeps;
    const bool keeping = terms_keep != nullptr || KeptOutputs::current() != nullptr;
    tensor_list outputs = terms.project(x, projections, keeping ? &keeps : nullptr);
    outputs.insert(outputs.end(), keeps.begin(), keeps.end());
    return outputs;
  });
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(projections.size());
  if (terms_keep != nullptr) terms_keep->assign(end, all.end());
  all.erase(end, all.end());
  return all;
}

// The products of all rows at once, and to them the terms of each adapter for its rows.
tensor_list outputs_by_rows(const at::Tensor& x, at::ArrayRef<Projection> projections) {
  tensor_list all = kernels::project(x, projections);
  int64_t first = 0;
  for (size_t part = 0; part < projections[0].by_rows.size(); ++part) {
    const int64_t rows = projections[0].by_rows[part].rows;
    Projections own = projections.vec();
    for (Projection& p : own) p.low_rank = p.by_rows[part].low_rank;
    tensor_list before;
    for (const at::Tensor& y : all) before.push_back(y.narrow(0, first, rows));
    tensor_list after = before;
    LowRankTerms(own).add_terms(x.narrow(0, first, rows), after);
    for (size_t i = 0; i < all.size(); ++i)
      if (!after[i].is_same(before[i])) tensor::copy(after[i], before[i]);
    first += rows;
  }
  return all;
}

struct Linear : torch::autograd::Function<Linear> {
  // anchor: set if x has no graph, and one begins here.
  static tensor_list forward(AutogradContext* context, const at::Tensor& x,
                             const c10::optional<at::Tensor>& /*anchor*/, const Projections& projections,
                             at::ScalarType compute, const Again& again, Wanted wanted) {
    const at::Tensor operand = converted(x, compute, MemoryKind::activations);
    LinearState state{projections, {}, {}, LowRankTerms(projections), x.scalar_type(), compute};
    tensor_list low_rank_keeps;
    tensor_list outputs = outputs_of(operand, state.low_rank, projections, &low_rank_keeps, wanted);
    bool trains = state.low_rank.needs_input();  // whether a trained weight needs x for its gradient
    for (const Projection& p : projections) {
      if (state.weights.emplace_back(*p.weight)) trains = true;
      state.biases.push_back(p.bias != nullptr ? tensor::Use(*p.bias) : tensor::Use());
    }
    if (trains && again) keep(context, "linear", again);
    tensor_list saved{trains && !again ? operand : at::Tensor()};
    saved.insert(saved.end(), low_rank_keeps.begin(), low_rank_keeps.end());
    keep(context, "linear", saved);
    keep(context, std::move(state));
    return outputs;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& state = kept<LinearState>(context);
    const tensor_list saved = kept(context);
    at::Tensor operand = saved[0];
    if (has_recipe(context)) operand = converted(made_again(context), state.compute, MemoryKind::activations);
    const at::ArrayRef<at::Tensor> low_rank_kept = at::ArrayRef<at::Tensor>(saved).slice(1);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].defined()) grads[i] = grads[i].contiguous();
      if (grads[i].defined()) state.biases[i].add([&](at::Tensor& sum) { add_column_sums(grads[i], sum); });
      state.biases[i].end();
    }
    at::Tensor dx;
    const auto dy = std::ranges::find_if(grads, is_defined);
    if (context->needs_input_grad(0) && dy != grads.end())
      dx = tensor::empty({dy->size(0), state.projections[0].in()}, state.x_type, MemoryKind::activations);
    if (!state.low_rank.empty())
      state.low_rank.backward(grads, state.projections, low_rank_kept, operand, dx);
    else if (dx.defined())
      input_gradient(grads, state.projections, {}, dx);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].defined()) add_weight_gradient(state, i, grads[i], operand);
      state.weights[i].end();
    }
    return {dx, {}, {}, {}, {}, {}};
  }

 private:
  static void add_weight_gradient(const LinearState& state, size_t i, const at::Tensor& dy,
                                  const at::Tensor& operand) {
    const bool transposed = state.projections[i].transposed;
    state.weights[i].add([&](at::Tensor& gradient) {
      gemm(transposed ? operand : dy, true, transposed ? dy : operand, false, gradient, 1.0f);
    });
  }
};

bool trains_terms(const Projection& p) {
  const LowRank& term = p.low_rank;
  const Parameter* const all[] = {term.a, term.b, term.bias, term.magnitude};
  return std::any_of(std::begin(all), std::end(all),
                     [](const Parameter* one) { return one != nullptr && one->has_gradient(); });
}

void check(const at::Tensor& x, const Projection& p) {
  need(x.dim() == 2 && p.weight->shape().size() == 2 && x.size(1) == p.in() && x.is_contiguous() &&
           (p.bias == nullptr || p.bias->count() == p.out()),
       "linear", "x [tokens, in], w [out, in] or transposed, b [out] are needed");
  if (const LowRank& term = p.low_rank; term.a != nullptr) {
    need(term.a->size(1) == p.in() && term.b->size(0) == p.out() && term.b->size(1) == term.rank() &&
             (term.bias == nullptr || term.bias->count() == p.out()) &&
             (term.magnitude == nullptr || term.magnitude->count() == p.out()),
         "linear", "a [rank, in], b [out, rank], and bias and magnitude [out] are needed");
  }
  type_of(x);
  type_of(p.weight->dtype());
}

at::Tensor gather_rows(const at::Tensor& ids, const Parameter& w, const tensor::Encoded& rows) {
  at::Tensor y = tensor::empty({ids.size(0), w.size(1)}, w.dtype(), MemoryKind::activations);
  const int32_t* const id = ids.data_ptr<int32_t>();
  tensor::parallel_for(ids.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      rows.decode({id[t], 1, 0, w.size(1)}, w.dtype(), at_byte(y, t * w.size(1)), w.size(1));
  });
  return y;
}

at::Tensor gather_rows(const at::Tensor& ids, Parameter& parameter) {
  if (parameter.encoded() != nullptr) return gather_rows(ids, parameter, *parameter.encoded());
  const tensor::Reading reading = parameter.read();
  const at::Tensor& w = *reading;
  at::Tensor y = tensor::empty({ids.size(0), w.size(1)}, w.scalar_type(), MemoryKind::activations);
  const auto bytes = static_cast<size_t>(w.size(1)) * w.element_size();
  const int32_t* const id = ids.data_ptr<int32_t>();
  tensor::parallel_for(ids.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      std::memcpy(at_byte(y, t * w.size(1)), at_byte(w, id[t] * w.size(1)), bytes);
  });
  return y;
}

// Positions whose lookups are trained, grouped by id, in order within each id.
std::vector<int64_t> by_id(const int32_t* id, int64_t count, int64_t padding_row) {
  std::vector<int64_t> positions;
  for (int64_t t = 0; t < count; ++t)
    if (id[t] != padding_row) positions.push_back(t);
  std::ranges::stable_sort(positions, [&](int64_t a, int64_t b) { return id[a] < id[b]; });
  return positions;
}

// Part of a sum, loaded as float32 and stored back.
void load_part(const tensor::Split& sum, int64_t begin, int64_t count, float* to) {
  cpu().convert(at_byte(sum.high, begin), type_of(sum.high), to, Type::f32, count);
  if (!sum.low.defined()) return;
  const auto* const high = static_cast<const uint16_t*>(sum.high.data_ptr()) + begin;
  const uint8_t* const low = sum.low.data_ptr<uint8_t>() + begin;
  for (int64_t i = 0; i < count; ++i) to[i] = tensor::joined(high[i], low[i]);
}
void store_part(const float* from, int64_t begin, int64_t count, const tensor::Split& sum) {
  if (!sum.low.defined())
    return cpu().convert(from, Type::f32, at_byte(sum.high, begin), type_of(sum.high), count);
  auto* const high = static_cast<uint16_t*>(sum.high.data_ptr()) + begin;
  uint8_t* const low = sum.low.data_ptr<uint8_t>() + begin;
  for (int64_t i = 0; i < count; ++i) tensor::split(from[i], high[i], low[i]);
}

// Sums each row of the gradient in float32, in the order of its tokens, and rounds once: in a bfloat16 sum of
// a hundred terms the last ones would be lost. Columns are divided among the threads.
void scatter_add_rows(const at::Tensor& dy, float scale, const at::Tensor& ids, int64_t padding_row,
                      const tensor::Split& grad) {
  const int64_t width = grad.high.size(1);
  const int32_t* const id = ids.data_ptr<int32_t>();
  const std::vector<int64_t> positions = by_id(id, ids.size(0), padding_row);
  constexpr int64_t kUnit = 64, kColumns = 1024;
  tensor::parallel_for((width + kUnit - 1) / kUnit, 1, [&](int64_t begin, int64_t end) {
    std::array<float, kColumns> sum;
    for (int64_t first = begin * kUnit; first < std::min(end * kUnit, width); first += kColumns) {
      const int64_t count = std::min(std::min(end * kUnit, width) - first, kColumns);
      for (size_t i = 0; i < positions.size();) {
        const int64_t row = id[positions[i]];
        load_part(grad, row * width + first, count, sum.data());
        for (; i < positions.size() && id[positions[i]] == row; ++i) {
          const char* const term = at_byte(dy, positions[i] * width + first);
          cpu().add(sum.data(), Type::f32, term, type_of(dy), scale, sum.data(), count);
        }
        store_part(sum.data(), row * width + first, count, grad);
      }
    }
  });
}

float scale_of(const EmbeddingOptions& options, at::ScalarType type) {
  return static_cast<float>(rounded(options.scale, type));
}

// x, scaled and with noise added in float32, and rounded once.
at::Tensor scaled_rows(at::Tensor x, const EmbeddingOptions& options) {
  if (options.scale == 1 && options.noise.size == 0 && options.multiplier == 1) return x;
  const int64_t width = x.size(1);
  const auto noise = static_cast<float>(options.noise.size);
  const float scale = scale_of(options, x.scalar_type()), multiplier = static_cast<float>(options.multiplier);
  tensor::parallel_for(x.size(0), 16, [&](int64_t begin, int64_t end) {
    std::array<float, 1024> piece;
    for (int64_t t = begin; t < end; ++t) {
      const base::CounterKey key =
          base::counter_key({options.noise.key, static_cast<uint64_t>(options.noise.row + t)});
      for (int64_t first = 0; first < width; first += std::ssize(piece)) {
        const int64_t count = std::min(width - first, std::ssize(piece));
        char* const place = at_byte(x, t * width + first);
        cpu().convert(place, type_of(x), piece.data(), Type::f32, count);
        for (int64_t i = 0; i < count; ++i) {
          float& value = piece[static_cast<size_t>(i)];
          value *= scale;
          if (noise != 0) value += noise * base::counter_uniform(key, static_cast<uint32_t>(first + i));
          value *= multiplier;
        }
        cpu().convert(piece.data(), Type::f32, place, type_of(x), count);
      }
    }
  });
  return x;
}

at::Tensor finished(const at::Tensor& x, const EmbeddingOptions& options) {
  return converted(scaled_rows(x, options), options.type.value_or(x.scalar_type()), MemoryKind::activations);
}

// The looked-up rows, before the operations that EmbeddingOptions applies to the sum. reduced, places: kept
// for backward.
at::Tensor looked_up(Parameter& w, const at::Tensor& ids, const EmbeddingOptions& options,
                     const EmbeddingTerms& terms, at::Tensor& reduced, at::Tensor& places) {
  at::Tensor rows = gather_rows(ids, w);
  if (const OwnRows* const own = options.own_rows; own != nullptr && own->rows != nullptr) {
    places = places_of(ids, *own);
    put_rows(rows, places, *own->rows);
  }
  if (!terms.empty()) reduced = terms.add_to(rows, ids);
  return rows;
}

struct EmbeddingState {
  tensor::Use table;
  EmbeddingTerms terms;
  tensor::Use own_rows;
  int64_t padding_row;
  float scale;
};

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor&, const at::Tensor& ids, Parameter* w,
                            const EmbeddingOptions& options) {
    const float scale = scale_of(options, w->dtype()) * static_cast<float>(options.multiplier);
    const OwnRows own = options.own_rows != nullptr ? *options.own_rows : OwnRows();
    EmbeddingState state{tensor::Use(*w), EmbeddingTerms(options.low_rank), use_of(own.rows), w->padding_row,
                         scale};
    tensor_list saved{ids, {}, {}};
    const at::Tensor rows = looked_up(*w, ids, options, state.terms, saved[1], saved[2]);
    keep(context, "embedding", saved);
    keep(context, std::move(state));
    return finished(rows, options);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& state = kept<EmbeddingState>(context);
    const at::Tensor dy = grads[0].contiguous();
    const tensor_list saved = kept(context);
    state.table.add_split([&](const tensor::Split& gradient) {
      const at::Tensor read = tables_own(saved[0], saved[2], state.padding_row);
      scatter_add_rows(dy, state.scale, read, state.padding_row, gradient);
    });
    state.table.end();
    state.own_rows.add_split([&](const tensor::Split& gradient) {
      scatter_add_rows(dy, state.scale, saved[2], kTablesOwn, gradient);
    });
    state.own_rows.end();
    if (!state.terms.empty()) {
      const at::Tensor d_rows = branch_gradient(dy, dy.scalar_type(), static_cast<double>(state.scale));
      state.terms.backward(d_rows, saved[0], saved[1], state.padding_row);
    }
    return {{}, {}, {}, {}};
  }
};

}  // namespace

namespace fused_ops {

std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute, const Again& again, Wanted wanted) {
  c10::optional<at::Tensor> anchor;
  if (at::GradMode::is_enabled() && !x.requires_grad() && std::ranges::any_of(projections, trains_terms))
    anchor = graph_start();
  if (records(x) || anchor) return Linear::apply(x, anchor, projections.vec(), compute, again, wanted);
  const at::Tensor operand = converted(x, compute, MemoryKind::workspace);
  if (!projections[0].by_rows.empty()) return outputs_by_rows(operand, projections);
  LowRankTerms terms(projections);
  return outputs_of(operand, terms, projections, nullptr, wanted);
}

at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& ids, Parameter& w,
                     const EmbeddingOptions& options) {
  if (records(anchor)) return Embedding::apply(anchor, ids, &w, options);
  at::Tensor reduced, places;
  return finished(looked_up(w, ids, options, EmbeddingTerms(options.low_rank), reduced, places), options);
}

}  // namespace fused_ops

std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute, const Again& again, Wanted wanted) {
  for (const Projection& p : projections) check(x, p);
  return backend(x).linear(x, projections, compute, again, wanted);
}

at::Tensor linear(const at::Tensor& x, Parameter& w, Parameter* b, at::ScalarType compute,
                  const Again& again) {
  const Projection projection{&w, b};
  return linear(x, projection, compute, again)[0];
}

at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& ids, Parameter& w,
                     const EmbeddingOptions& options) {
  need(ids.dim() == 1 && ids.scalar_type() == at::kInt && ids.is_contiguous() && w.shape().size() == 2,
       "embedding", "int32 ids [tokens] and a weight [vocab, hidden] are needed");
  const int32_t* const id = ids.data_ptr<int32_t>();
  for (int64_t t = 0; t < ids.size(0); ++t) {
    if (id[t] < 0 || id[t] >= w.size(0)) {
      fail(Status::invalid_argument, "token id {} at position {}: {} has rows 0 to {}", id[t], t, w.name,
           w.size(0) - 1);
    }
  }
  return backend(w.device()).embedding(anchor, ids, w, options);
}

}  // namespace trl::kernels
