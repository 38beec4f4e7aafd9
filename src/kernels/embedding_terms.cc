#include "kernels/embedding_terms.h"

#include "kernels/gemm.h"
#include "kernels/low_rank.h"

namespace trl::kernels {

namespace {

// scale a[:, id_t], a row for each token.
at::Tensor columns_of(Parameter& a, const at::Tensor& ids, double scale, at::ScalarType type) {
  const int64_t rank = a.size(0), rows = a.size(1);
  at::Tensor columns = tensor::empty({ids.size(0), rank}, type, MemoryKind::activations);
  const tensor::Reading values = a.read();
  const int32_t* const id = ids.data_ptr<int32_t>();
  tensor::parallel_for(ids.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t r = 0; r < rank; ++r) {
        cpu().scale(at_byte(*values, r * rows + id[t]), type_of(*values), static_cast<float>(scale),
                    at_byte(columns, t * rank + r), type_of(columns), 1);
      }
    }
  });
  return columns;
}

}  // namespace

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

// Each row of a is added to by one thread, in the order of the tokens.
void EmbeddingTerms::add_gradient_of_a(const at::Tensor& d_reduced, const at::Tensor& ids,
                                       int64_t padding_row) const {
  const int64_t rank = d_reduced.size(1), rows = factors_.a->size(1);
  const int32_t* const id = ids.data_ptr<int32_t>();
  const float* const d = d_reduced.data_ptr<float>();
  a_.add([&](at::Tensor& gradient) {
    tensor::parallel_for(rank, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t t = 0; t < ids.size(0); ++t) {
          if (id[t] == padding_row) continue;
          char* const place = at_byte(gradient, r * rows + id[t]);
          cpu().add(place, type_of(gradient), d + t * rank + r, Type::f32, 1, place, 1);
        }
      }
    });
  });
}

}  // namespace trl::kernels
