#include "kernels/linear/embedding_terms.h"

#include <unordered_map>

#include "kernels/gemm/gemm.h"
#include "kernels/linear/low_rank.h"

namespace trl::kernels {

namespace {

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
