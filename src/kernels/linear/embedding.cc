// Lookups in an embedding. Gradients of the table are added directly to their buffer.
#include <array>

#include "base/arithmetic/counter_random.h"
#include "kernels/backend.h"
#include "kernels/linear/embedding_terms.h"
#include "kernels/linear/low_rank.h"
#include "kernels/op.h"
#include "kernels/weight/weight_product.h"

namespace trl::kernels {

namespace {

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

at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& ids, Parameter& w,
                     const EmbeddingOptions& options) {
  if (records(anchor)) return Embedding::apply(anchor, ids, &w, options);
  at::Tensor reduced, places;
  return finished(looked_up(w, ids, options, EmbeddingTerms(options.low_rank), reduced, places), options);
}

}  // namespace fused_ops

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
