// The scale is applied to copies of the small factors: forward reads scale a and b, backward a and scale b.
// So no tensor with a row for each token is scaled. Dropout leaves out different elements of x for each
// module, so with it each module reads its own x.
#include "kernels/linear/low_rank.h"

#include <array>
#include <cmath>

#include "kernels/backend.h"
#include "kernels/gemm/gemm.h"
#include "kernels/weight/weight_product.h"

namespace trl::kernels {

namespace {

// to = scale * the values of w, in to's type.
void write_scaled(Parameter& w, double scale, const at::Tensor& to) {
  const tensor::Reading values = w.read();
  parallel_elements(to.numel(), [&](int64_t begin, int64_t end) {
    cpu().scale(at_byte(*values, begin), type_of(*values), static_cast<float>(scale), at_byte(to, begin),
                type_of(to), end - begin);
  });
}

// Adds y to x in place; y may have rows that repeat.
void add_in_place(const at::Tensor& x, const at::Tensor& y) {
  const int64_t count = y.numel();
  tensor::parallel_for(x.numel() / count, std::max<int64_t>(1, 8192 / count),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r)
                           cpu().add(at_byte(x, r * count), type_of(x), y.data_ptr(), type_of(y), 1,
                                     at_byte(x, r * count), count);
                       });
}

at::Tensor bias_of(const Projection& p) {
  return p.bias != nullptr ? at::Tensor(*p.bias->read()) : at::Tensor();
}

// Outputs for the case that they are not read.
tensor_list zeros(const at::Tensor& x, at::ArrayRef<Projection> projections) {
  tensor_list all;
  for (const Projection& p : projections)
    all.push_back(tensor::zeros({x.size(0), p.out()}, x.scalar_type(), MemoryKind::activations));
  return all;
}

constexpr int64_t kColumns = 64;  // columns that one thread takes at a time

at::Tensor floats(Parameter& w, double scale = 1) {
  at::Tensor copy = tensor::empty(w.shape(), at::kFloat, MemoryKind::workspace);
  const tensor::Reading values = w.read();
  parallel_elements(copy.numel(), [&](int64_t begin, int64_t end) {
    cpu().scale(at_byte(*values, begin), type_of(*values), static_cast<float>(scale), at_byte(copy, begin),
                Type::f32, end - begin);
  });
  return copy;
}

// Reads rows [first, first + rows.size(0)) of the weight, in float32.
void read_rows(const at::Tensor& weight, bool transposed, int64_t first, const at::Tensor& rows) {
  const int64_t in = rows.size(1);
  tensor::parallel_for(rows.size(0), 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = rows.data_ptr<float>() + r * in;
      if (!transposed) {
        cpu().convert(at_byte(weight, (first + r) * in), type_of(weight), row, Type::f32, in);
        continue;
      }
      for (int64_t i = 0; i < in; ++i) {
        const char* const element = at_byte(weight, i * weight.size(1) + first + r);
        cpu().convert(element, type_of(weight), row + i, Type::f32, 1);
      }
    }
  });
}

// Decodes rows, in the type that a reader of the whole weight gets.
void decode_rows(Parameter& w, int64_t first, const at::Tensor& rows) {
  const tensor::Encoded& values = *w.encoded();
  const int64_t in = rows.size(1);
  const at::Tensor numbers =
      w.dtype() == at::kFloat ? rows : tensor::empty(rows.sizes(), w.dtype(), MemoryKind::workspace);
  tensor::parallel_for(rows.size(0), 4, [&](int64_t begin, int64_t end) {
    values.decode({first + begin, end - begin, 0, in}, w.dtype(), at_byte(numbers, begin * in), in);
  });
  if (w.dtype() != at::kFloat) read_rows(numbers, false, 0, rows);
}

void write_norms(const at::Tensor& rows, float* norm) {
  const int64_t in = rows.size(1);
  tensor::parallel_for(rows.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      double sum = 0;
      const float* const row = rows.data_ptr<float>() + r * in;
      for (int64_t i = 0; i < in; ++i) sum += double{row[i]} * row[i];
      norm[r] = static_cast<float>(std::sqrt(sum));
    }
  });
}

void scale_rows(const at::Tensor& rows, const at::Tensor& factors) {
  const int64_t in = rows.size(1);
  tensor::parallel_for(rows.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = rows.data_ptr<float>() + r * in;
      cpu().scale(row, Type::f32, factors.data_ptr<float>()[r], row, Type::f32, in);
    }
  });
}

// Writes these as rows [first, first + rows.size(0)) of the weight.
void write_rows(const at::Tensor& rows, bool transposed, int64_t first, const at::Tensor& weight) {
  const int64_t in = rows.size(1);
  tensor::parallel_for(rows.size(0), 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* const row = rows.data_ptr<float>() + r * in;
      if (!transposed) {
        cpu().convert(row, Type::f32, at_byte(weight, (first + r) * in), type_of(weight), in);
        continue;
      }
      for (int64_t i = 0; i < in; ++i) {
        char* const element = at_byte(weight, i * weight.size(1) + first + r);
        cpu().convert(row + i, Type::f32, element, type_of(weight), 1);
      }
    }
  });
}

// Calls body(first, rows) for blocks of the rows of weight + scale b a, in float32: the weight is never
// copied whole.
template <typename Body>
void each_block(const Projection& p, const Body& body) {
  constexpr int64_t kBlock = 1 << 20;  // elements
  const int64_t in = p.in(), out = p.out();
  const at::Tensor a = floats(*p.low_rank.a), b = floats(*p.low_rank.b, p.low_rank.scale);
  const tensor::Encoded* const encoded = p.weight->encoded();
  const at::Tensor weight = encoded == nullptr ? at::Tensor(*p.weight->read()) : at::Tensor();
  const int64_t most = std::clamp<int64_t>(kBlock / in, 1, out);
  const at::Tensor block = tensor::empty({most, in}, at::kFloat, MemoryKind::workspace);
  for (int64_t first = 0; first < out; first += most) {
    at::Tensor rows = block.narrow(0, 0, std::min(most, out - first));
    if (encoded != nullptr)
      decode_rows(*p.weight, first, rows);
    else
      read_rows(weight, p.transposed, first, rows);
    gemm(b.narrow(0, first, rows.size(0)), false, a, false, rows, 1.0f);
    body(first, rows);
  }
}

using Piece = std::array<float, kColumns>;

// Calls body(first column, count, their bias) for pieces of the columns, each on one thread.
template <typename Body>
void each_piece(int64_t width, const at::Tensor& bias, const Body& body) {
  tensor::parallel_for((width + kColumns - 1) / kColumns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * kColumns; first < std::min(end * kColumns, width); first += kColumns) {
      const int64_t count = std::min(width - first, kColumns);
      Piece own{};
      if (bias.defined()) cpu().convert(at_byte(bias, first), type_of(bias), own.data(), Type::f32, count);
      body(first, count, own);
    }
  });
}

// Multiplies y - bias by the gain, column by column, in y's type; a gain of 1 leaves every bit of y. gain:
// float32 [out]; bias: of any type, or undefined.
at::Tensor with_gain(const at::Tensor& y, const at::Tensor& gain, const at::Tensor& bias) {
  at::Tensor scaled = tensor::empty_like(y, MemoryKind::activations);
  const int64_t width = y.size(1);
  each_piece(width, bias, [&](int64_t first, int64_t count, const Piece& own) {
    Piece piece;
    const float* const factor = gain.data_ptr<float>() + first;
    for (int64_t r = 0; r < y.size(0); ++r) {
      cpu().convert(at_byte(y, r * width + first), type_of(y), piece.data(), Type::f32, count);
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i);
        piece[at] += (factor[i] - 1) * (piece[at] - own[at]);
      }
      cpu().convert(piece.data(), Type::f32, at_byte(scaled, r * width + first), type_of(y), count);
    }
  });
  return scaled;
}

// The sums of the columns of dy (y - bias): float32 [out], the gradient of the gain.
at::Tensor gain_gradient(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& bias) {
  const int64_t width = y.size(1);
  at::Tensor sums = tensor::empty({width}, at::kFloat, MemoryKind::workspace);
  each_piece(width, bias, [&](int64_t first, int64_t count, const Piece& own) {
    Piece piece, d_piece;
    std::array<double, kColumns> sum{};
    for (int64_t r = 0; r < y.size(0); ++r) {
      cpu().convert(at_byte(y, r * width + first), type_of(y), piece.data(), Type::f32, count);
      cpu().convert(at_byte(dy, r * width + first), type_of(dy), d_piece.data(), Type::f32, count);
      for (size_t i = 0; i < static_cast<size_t>(count); ++i)
        sum[i] += double{d_piece[i]} * (double{piece[i]} - own[i]);
    }
    for (int64_t i = 0; i < count; ++i)
      sums.data_ptr<float>()[first + i] = static_cast<float>(sum[static_cast<size_t>(i)]);
  });
  return sums;
}

// scale a[:, id_t], a row for each token.
at::Tensor columns_of(Parameter& a, const at::Tensor& ids, double scale, at::ScalarType type) {
  const int64_t rank = a.size(0), rows = a.size(1);
  at::Tensor columns = tensor::empty({ids.size(0), rank}, type, MemoryKind::activations);
  const tensor::Reading values = a.read();
  const int32_t* const id = ids.data_ptr<int32_t>();
  tensor::parallel_for(ids.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t r = 0; r < rank; ++r)
        cpu().scale(at_byte(*values, r * rows + id[t]), type_of(*values), static_cast<float>(scale),
                    at_byte(columns, t * rank + r), type_of(columns), 1);
  });
  return columns;
}

}  // namespace

at::Tensor scaled(Parameter& w, double scale, at::ScalarType type) {
  if (scale == 1) return *read(w, type);
  at::Tensor copy = tensor::empty(w.shape(), type, MemoryKind::workspace);
  write_scaled(w, scale, copy);
  return copy;
}

LowRankTerms::LowRankTerms(at::ArrayRef<Projection> projections) {
  for (size_t i = 0; i < projections.size(); ++i) {
    const LowRank& factors = projections[i].low_rank;
    if (factors.a == nullptr) continue;
    terms_.push_back({i, projections[i], width_, use_of(factors.a), use_of(factors.b), use_of(factors.bias),
                      use_of(factors.magnitude)});
    width_ += factors.rank();
  }
}

bool LowRankTerms::needs_input() const {
  return std::ranges::any_of(terms_, [](const Term& term) { return static_cast<bool>(term.a); });
}

bool LowRankTerms::has_magnitudes() const {
  return std::ranges::any_of(terms_, [](const Term& term) { return term.factors().magnitude != nullptr; });
}

bool LowRankTerms::drops() const {
  return std::ranges::any_of(terms_, [](const Term& term) { return term.factors().dropout.rate > 0; });
}

// The a's, stacked by rows: [sum of the ranks, in]
at::Tensor LowRankTerms::stacked(at::ScalarType type, bool with_scale) const {
  const auto scale = [&](const Term& term) { return with_scale ? term.factors().scale : 1.0; };
  if (terms_.size() == 1) return scaled(*terms_[0].factors().a, scale(terms_[0]), type);
  at::Tensor all = tensor::empty({width_, terms_[0].projection.in()}, type, MemoryKind::workspace);
  for (const Term& term : terms_)
    write_scaled(*term.factors().a, scale(term), all.narrow(0, term.first, term.factors().rank()));
  return all;
}

// The columns of all scale_i a_i x: [tokens, sum of the ranks]
at::Tensor LowRankTerms::reduced(const at::Tensor& x, tensor_list* kept) const {
  at::Tensor y = tensor::empty({x.size(0), width_}, x.scalar_type(), MemoryKind::activations);
  if (!drops()) {
    if (IndependentRows::active())
      reduce_rows(x, y);
    else
      gemm(x, false, stacked(x.scalar_type(), true), true, y);
    return y;
  }
  for (size_t i = 0; i < terms_.size(); ++i) {
    const LowRank& factors = terms_[i].factors();
    at::Tensor part = columns(y, terms_[i]);
    at::Tensor* const words = kept != nullptr ? &(*kept)[1 + i] : nullptr;
    gemm(dropped(x, factors.dropout, words), false, scaled(*factors.a, factors.scale, x.scalar_type()), true,
         part);
  }
  return y;
}

// The same for independent rows. It scales the few sums instead of the factors, which are read where they
// are.
void LowRankTerms::reduce_rows(const at::Tensor& x, const at::Tensor& y) const {
  const at::Tensor sums = tensor::empty(y.sizes(), at::kFloat, MemoryKind::workspace);
  std::vector<tensor::Reading> factors;
  std::vector<SkinnyProduct> products;
  for (const Term& term : terms_)
    products.push_back(
        {*factors.emplace_back(read(*term.factors().a, x.scalar_type())), {}, columns(sums, term)});
  skinny_products(x, products);
  tensor::parallel_for(x.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (const Term& term : terms_)
        cpu().scale(at_byte(sums, r * width_ + term.first), Type::f32,
                    static_cast<float>(term.factors().scale), at_byte(y, r * width_ + term.first), type_of(y),
                    term.factors().rank());
  });
}

at::Tensor LowRankTerms::in_their_type(const at::Tensor& x) const {
  const bool narrow = terms_[0].factors().a->dtype() == at::kBFloat16;
  return x.defined() && narrow ? converted(x, at::kBFloat16, MemoryKind::workspace) : x;
}

// Returns the products that the terms add to each of the outputs.
std::vector<TensorFactors> LowRankTerms::products_of(const at::Tensor& reduced, size_t outputs) const {
  std::vector<TensorFactors> all(outputs);
  for (const Term& term : terms_) {
    const at::Tensor b = *read(*term.factors().b, reduced.scalar_type());
    all[term.output] = {columns(reduced, term), false, b, true};
  }
  return all;
}

// Keeps the products of all terms with x, their dropout's words, and the factors of the magnitudes.
tensor_list LowRankTerms::project(const at::Tensor& x, at::ArrayRef<Projection> projections,
                                  tensor_list* kept, Wanted wanted) {
  const bool values = wanted != Wanted::graph || has_magnitudes();
  if (empty()) return values ? kernels::project(x, projections) : zeros(x, projections);
  if (kept != nullptr) kept->resize(1 + terms_.size());
  const at::Tensor r = reduced(in_their_type(x), kept);
  if (kept != nullptr) (*kept)[0] = r;
  if (!values) return zeros(x, projections);
  tensor_list outputs = kernels::project(x, projections, products_of(r, projections.size()));
  add_biases_and_magnitudes(outputs, kept);
  return outputs;
}

void LowRankTerms::add_terms(const at::Tensor& x, tensor_list& outputs) {
  if (empty()) return;
  add_products(products_of(reduced(in_their_type(x), nullptr), outputs.size()), outputs);
  add_biases_and_magnitudes(outputs, nullptr);
}

void LowRankTerms::add_biases_and_magnitudes(tensor_list& outputs, tensor_list* kept) {
  for (Term& term : terms_) {
    const LowRank& factors = term.factors();
    at::Tensor& y = outputs[term.output];
    if (factors.bias != nullptr) add_in_place(y, scaled(*factors.bias, factors.scale, at::kFloat));
    if (factors.magnitude == nullptr) continue;
    term.norms = row_norms(term.projection);
    if (kept != nullptr) kept->push_back(y);
    y = with_gain(y, gain(term), bias_of(term.projection));
  }
}

at::Tensor LowRankTerms::gain(const Term& term) const {
  at::Tensor values = scaled(*term.factors().magnitude, 1, at::kFloat).clone();
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<float>()[i] /= term.norms.data_ptr<float>()[i];
  return values;
}

void LowRankTerms::backward_of_magnitudes(tensor_list& d_outputs, at::ArrayRef<at::Tensor> kept) {
  size_t place = 1 + terms_.size();
  for (Term& term : terms_) {
    if (term.factors().magnitude == nullptr) continue;
    const at::Tensor& y = kept[place++];
    at::Tensor& dy = d_outputs[term.output];
    if (!dy.defined()) continue;
    term.magnitude.add([&](at::Tensor& gradient) {
      add_in_pieces(dy.size(0), gradient, [&](int64_t first, int64_t count, at::Tensor& sum) {
        const at::Tensor d_gain =
            gain_gradient(dy.narrow(0, first, count), y.narrow(0, first, count), bias_of(term.projection));
        for (int64_t i = 0; i < d_gain.numel(); ++i)
          d_gain.data_ptr<float>()[i] /= term.norms.data_ptr<float>()[i];
        add_in_place(sum, d_gain);
      });
    });
    dy = with_gain(dy, gain(term), {});
  }
}

void LowRankTerms::backward(tensor_list& d_outputs, at::ArrayRef<Projection> projections,
                            at::ArrayRef<at::Tensor> kept, at::Tensor x, at::Tensor& dx) {
  backward_of_magnitudes(d_outputs, kept);
  tensor_list dys;
  for (const at::Tensor& dy : d_outputs) dys.push_back(in_their_type(dy));
  x = in_their_type(x);
  const at::ArrayRef<at::Tensor> words = kept.slice(1, terms_.size());
  const at::Tensor d = d_reduced(dys, kept[0]);
  if (dx.defined()) {
    const TensorFactors own{d, false, stacked(d.scalar_type(), false), false};
    input_gradient(d_outputs, projections, drops() ? TensorFactors() : own, dx);
    if (drops()) add_dropped(d, words, dx);
  }
  if (needs_input()) add_gradients_of_a(d, words, x);
  for (Term& term : terms_) {
    if (const at::Tensor& dy = dys[term.output]; dy.defined()) {
      term.b.add(
          [&](at::Tensor& gradient) { gemm(dy, true, columns(kept[0], term), false, gradient, 1.0f); });
      term.bias.add([&](at::Tensor& gradient) {
        add_in_pieces(dy.size(0), gradient, [&](int64_t first, int64_t count, at::Tensor& sum) {
          at::Tensor sums = at::zeros({dy.size(1)}, at::kFloat);
          add_column_sums(dy.narrow(0, first, count), sums);
          add_in_place(sum, sums.mul_(term.factors().scale));
        });
      });
    }
    for (tensor::Use* use : {&term.a, &term.b, &term.bias, &term.magnitude}) use->end();
  }
}

// The columns of all scale_i dy_i b_i.
at::Tensor LowRankTerms::d_reduced(at::ArrayRef<at::Tensor> d_outputs, const at::Tensor& reduced) const {
  at::Tensor d = tensor::empty(reduced.sizes(), reduced.scalar_type(), MemoryKind::workspace);
  for (const Term& term : terms_) {
    at::Tensor part = columns(d, term);
    const at::Tensor& dy = d_outputs[term.output];
    if (dy.defined())
      gemm(dy, false, scaled(*term.factors().b, term.factors().scale, d.scalar_type()), false, part);
    else
      part.zero_();
  }
  return d;
}

void LowRankTerms::add_dropped(const at::Tensor& d_reduced, at::ArrayRef<at::Tensor> words,
                               at::Tensor& dx) const {
  at::Tensor part = tensor::empty(dx.sizes(), d_reduced.scalar_type(), MemoryKind::workspace);
  for (size_t i = 0; i < terms_.size(); ++i) {
    const LowRank& factors = terms_[i].factors();
    gemm(columns(d_reduced, terms_[i]), false, *read(*factors.a, part.scalar_type()), false, part);
    kernels::add_dropped(part, factors.dropout, words[i], dx);
  }
}

// Without dropout all of them read the same x: one product for each piece of the sum computes them.
void LowRankTerms::add_gradients_of_a(const at::Tensor& d_reduced, at::ArrayRef<at::Tensor> words,
                                      const at::Tensor& x) const {
  const auto each = [&](const auto& body) {
    for (size_t i = 0; i < terms_.size(); ++i)
      terms_[i].a.add([&](at::Tensor& gradient) { body(i, gradient); });
  };
  if (drops() || terms_.size() == 1) {
    return each([&](size_t i, at::Tensor& gradient) {
      const at::Tensor own = drops() ? dropped(x, terms_[i].factors().dropout, words[i]) : x;
      gemm(columns(d_reduced, terms_[i]), true, own, false, gradient, 1.0f);
    });
  }
  at::Tensor all = tensor::empty({width_, x.size(1)}, at::kFloat, MemoryKind::workspace);
  tensor_list sums(terms_.size());  // the gradients, or float32 sums for bfloat16 ones
  each([&](size_t i, at::Tensor& gradient) { sums[i] = wide_sum(gradient); });
  for (int64_t first = 0; first < x.size(0); first += kSumPiece) {
    const int64_t count = std::min(kSumPiece, x.size(0) - first);
    gemm(d_reduced.narrow(0, first, count), true, x.narrow(0, first, count), false, all);
    each([&](size_t i, at::Tensor&) {
      add_in_place(sums[i], all.narrow(0, terms_[i].first, terms_[i].factors().rank()));
    });
  }
  each([&](size_t i, at::Tensor& gradient) {
    if (!sums[i].is_same(gradient)) add_to(sums[i], gradient);
  });
}

namespace fused_ops {

at::Tensor row_norms(const Projection& p) {
  at::Tensor norms = tensor::empty({p.out()}, at::kFloat, MemoryKind::activations);
  each_block(
      p, [&](int64_t first, const at::Tensor& rows) { write_norms(rows, norms.data_ptr<float>() + first); });
  return norms;
}

}  // namespace fused_ops

at::Tensor row_norms(const Projection& p) { return backend(p.weight->device()).row_norms(p); }

void merge(const Projection& p) {
  const tensor::Writing weight = p.weight->write();
  at::Tensor magnitudes;
  if (p.low_rank.magnitude != nullptr) magnitudes = floats(*p.low_rank.magnitude);
  each_block(p, [&](int64_t first, const at::Tensor& rows) {
    if (magnitudes.defined()) {
      at::Tensor factors = tensor::empty({rows.size(0)}, at::kFloat, MemoryKind::workspace);
      write_norms(rows, factors.data_ptr<float>());
      for (int64_t r = 0; r < rows.size(0); ++r) {
        float& factor = factors.data_ptr<float>()[r];
        factor = magnitudes.data_ptr<float>()[first + r] / factor;
      }
      scale_rows(rows, factors);
    }
    write_rows(rows, p.transposed, first, *weight);
  });
}

at::Tensor places_of(const at::Tensor& ids, const OwnRows& own) {
  std::unordered_map<int64_t, int32_t> places;
  for (const int64_t id : own.ids) places.emplace(id, static_cast<int32_t>(places.size()));
  at::Tensor found = tensor::empty(ids.sizes(), at::kInt, MemoryKind::activations);
  for (int64_t t = 0; t < ids.numel(); ++t) {
    const auto place = places.find(ids.data_ptr<int32_t>()[t]);
    found.data_ptr<int32_t>()[t] = place == places.end() ? kTablesOwn : place->second;
  }
  return found;
}

at::Tensor tables_own(const at::Tensor& ids, const at::Tensor& places, int64_t none) {
  if (!places.defined()) return ids;
  at::Tensor own = tensor::empty(ids.sizes(), at::kInt, MemoryKind::workspace);
  for (int64_t t = 0; t < ids.numel(); ++t) {
    const bool elsewhere = places.data_ptr<int32_t>()[t] != kTablesOwn;
    own.data_ptr<int32_t>()[t] = elsewhere ? static_cast<int32_t>(none) : ids.data_ptr<int32_t>()[t];
  }
  return own;
}

void put_rows(const at::Tensor& looked_up, const at::Tensor& places, Parameter& own) {
  const tensor::Reading rows = own.read();
  const int64_t width = looked_up.size(1);
  for (int64_t t = 0; t < places.numel(); ++t) {
    const int32_t place = places.data_ptr<int32_t>()[t];
    if (place == kTablesOwn) continue;
    cpu().convert(at_byte(*rows, place * width), type_of(*rows), at_byte(looked_up, t * width),
                  type_of(looked_up), width);
  }
}

EmbeddingTerms::EmbeddingTerms(const LowRank& factors)
    : factors_(factors), a_(use_of(factors.a)), b_(use_of(factors.b)) {}

at::Tensor EmbeddingTerms::add_to(at::Tensor& rows, const at::Tensor& ids) const {
  const at::ScalarType type = rows.scalar_type();
  at::Tensor reduced = columns_of(*factors_.a, ids, factors_.scale, type);
  gemm(reduced, false, *read(*factors_.b, type), true, rows, 1.0f);
  return reduced;
}

void EmbeddingTerms::backward(const at::Tensor& dy, const at::Tensor& ids, const at::Tensor& reduced,
                              int64_t padding_row) {
  b_.add([&](at::Tensor& gradient) { gemm(dy, true, reduced, false, gradient, 1.0f); });
  if (a_) {
    at::Tensor d = tensor::empty(reduced.sizes(), at::kFloat, MemoryKind::workspace);
    gemm(dy, false, scaled(*factors_.b, factors_.scale, dy.scalar_type()), false, d);
    add_gradient_of_a(d, ids, padding_row);
  }
  a_.end();
  b_.end();
}

// Adds to each row of a on one thread, in the order of the tokens, in float32.
void EmbeddingTerms::add_gradient_of_a(const at::Tensor& d_reduced, const at::Tensor& ids,
                                       int64_t padding_row) const {
  const int64_t rank = d_reduced.size(1), rows = factors_.a->size(1);
  const int32_t* const id = ids.data_ptr<int32_t>();
  const float* const d = d_reduced.data_ptr<float>();
  a_.add([&](at::Tensor& gradient) {
    each_with_work(rank, rows, [&](int64_t r, float* sums) {
      char* const row = at_byte(gradient, r * rows);
      cpu().convert(row, type_of(gradient), sums, Type::f32, rows);
      for (int64_t t = 0; t < ids.size(0); ++t)
        if (id[t] != padding_row) sums[id[t]] += d[t * rank + r];
      cpu().convert(sums, Type::f32, row, type_of(gradient), rows);
    });
  });
}

}  // namespace trl::kernels
