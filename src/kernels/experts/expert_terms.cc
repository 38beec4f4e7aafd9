// The products a_e x of the terms are computed again in backward: they cost little compared to the experts'
// own products.
#include "kernels/experts/expert_terms.h"

#include "kernels/linear/low_rank.h"
#include "kernels/linear/merge.h"

namespace trl::kernels {

ExpertTerms::ExpertTerms(const LowRank& factors, int64_t experts)
    : factors_(factors), experts_(experts), a_(use_of(factors.a)), b_(use_of(factors.b)) {}

// a_e x: [rows, rank]
at::Tensor ExpertTerms::reduced(const Groups& groups, const at::Tensor& rows) const {
  const at::ScalarType type = rows.scalar_type();
  const int64_t r = rank(), in = rows.size(1);
  at::Tensor y = tensor::empty({rows.size(0), r}, type, MemoryKind::workspace);
  const tensor::Reading a = read(*factors_.a, type);
  std::vector<Multiplication> products;
  for (const Group& group : groups.groups) {
    const Matrix matrix{at_byte(*a, group.expert * r * in), type, in, r, in, true};
    products.push_back({matrix_of(rows, group, false), matrix, at_byte(y, group.first * r), type, r});
  }
  gemm(products);
  return y;
}

// scale b_e of each group, one after the other: [groups, out, rank]
at::Tensor ExpertTerms::scaled_b(const Groups& groups, at::ScalarType type) const {
  const int64_t r = rank(), out = factors_.b->size(0), width = r * experts_;
  at::Tensor copy = tensor::empty({std::ssize(groups.groups), out, r}, type, MemoryKind::workspace);
  const tensor::Reading b = factors_.b->read();
  each_with_work(out, width + r, [&](int64_t row, float* work) {
    float* const own = work + width;
    cpu().scale(at_byte(*b, row * width), type_of(*b), static_cast<float>(factors_.scale), work, Type::f32,
                width);
    for (size_t g = 0; g < groups.groups.size(); ++g) {
      for (int64_t i = 0; i < r; ++i) own[i] = work[i * experts_ + groups.groups[g].expert];
      cpu().convert(own, Type::f32, at_byte(copy, (static_cast<int64_t>(g) * out + row) * r), type_of(copy),
                    r);
    }
  });
  return copy;
}

void ExpertTerms::add_to(const Groups& groups, const at::Tensor& rows, const at::Tensor& y) const {
  if (empty()) return;
  const at::ScalarType type = rows.scalar_type();
  const int64_t r = rank(), out = y.size(1);
  const at::Tensor x = reduced(groups, rows), b = scaled_b(groups, type);
  std::vector<Multiplication> products;
  for (const Group& group : groups.groups) {
    const auto g = std::ssize(products);
    const Matrix matrix{at_byte(b, g * out * r), type, r, out, r, true};
    products.push_back({matrix_of(x, group, false), matrix, at_byte(y, group.first * out), type, out, 1.0f});
  }
  gemm(products);
}

at::Tensor ExpertTerms::add_input_gradient(const Groups& groups, const at::Tensor& dy,
                                           const at::Tensor& dx) const {
  if (empty()) return {};
  const at::ScalarType type = dy.scalar_type();
  const int64_t r = rank(), out = dy.size(1), in = dx.size(1);
  at::Tensor reduced_dy = tensor::empty({dy.size(0), r}, type, MemoryKind::workspace);
  const at::Tensor b = scaled_b(groups, type);
  const tensor::Reading a = read(*factors_.a, type);
  std::vector<Multiplication> narrow, wide;
  for (const Group& group : groups.groups) {
    const auto g = std::ssize(narrow);
    const Matrix of_b{at_byte(b, g * out * r), type, out, r, r, false};
    const Matrix of_a{at_byte(*a, group.expert * r * in), type, r, in, in, false};
    narrow.push_back({matrix_of(dy, group, false), of_b, at_byte(reduced_dy, group.first * r), type, r});
    wide.push_back(
        {matrix_of(reduced_dy, group, false), of_a, at_byte(dx, group.first * in), type, in, 1.0f});
  }
  gemm(narrow);
  gemm(wide);
  return reduced_dy;
}

void ExpertTerms::add_gradients(const Groups& groups, const at::Tensor& dy, const at::Tensor& reduced_dy,
                                const at::Tensor& rows) const {
  if (empty()) return;
  a_.add([&](at::Tensor& gradient) {
    const int64_t r = rank(), in = rows.size(1);
    std::vector<Multiplication> products;
    for (const Group& group : groups.groups)
      products.push_back({matrix_of(reduced_dy, group, true), matrix_of(rows, group, false),
                          at_byte(gradient, group.expert * r * in), gradient.scalar_type(), in, 1.0f});
    gemm(products);
  });
  b_.add([&](at::Tensor& gradient) { add_gradient_of_b(groups, dy, rows, gradient); });
}

void ExpertTerms::add_gradient_of_b(const Groups& groups, const at::Tensor& dy, const at::Tensor& rows,
                                    const at::Tensor& gradient) const {
  const int64_t r = rank(), out = dy.size(1), width = r * experts_;
  const at::Tensor x = reduced(groups, rows);
  const at::Tensor sums =
      tensor::empty({std::ssize(groups.groups), out, r}, at::kFloat, MemoryKind::workspace);
  std::vector<Multiplication> products;
  for (const Group& group : groups.groups) {
    const auto g = std::ssize(products);
    products.push_back(
        {matrix_of(dy, group, true), matrix_of(x, group, false), at_byte(sums, g * out * r), at::kFloat, r});
  }
  gemm(products);
  each_with_work(out, width, [&](int64_t row, float* all) {
    cpu().convert(at_byte(gradient, row * width), type_of(gradient), all, Type::f32, width);
    for (size_t g = 0; g < groups.groups.size(); ++g) {
      const float* const own = sums.data_ptr<float>() + (static_cast<int64_t>(g) * out + row) * r;
      for (int64_t i = 0; i < r; ++i)
        all[i * experts_ + groups.groups[g].expert] += static_cast<float>(factors_.scale) * own[i];
    }
    cpu().convert(all, Type::f32, at_byte(gradient, row * width), type_of(gradient), width);
  });
}

void ExpertTerms::end() {
  a_.end();
  b_.end();
}

void merge_experts(Parameter& w, const LowRank& factors) {
  const int64_t experts = w.size(0), r = factors.a->size(0) / experts;
  const at::Tensor a = *factors.a->read(), b = factors.b->read()->view({-1, r, experts});
  const tensor::Writing values = w.write();
  const at::Tensor b_of_one =
      tensor::empty({b.size(0), r}, b.scalar_type(), MemoryKind::workspace, b.device());
  for (int64_t e = 0; e < experts; ++e) {
    tensor::copy_in_parts(b_of_one, b.select(2, e));
    Parameter own(w.name, values->select(0, e)), own_a(factors.a->name, a.narrow(0, e * r, r)),
        own_b(factors.b->name, b_of_one);
    merge({.weight = &own, .low_rank = {.a = &own_a, .b = &own_b, .scale = factors.scale}});
  }
}

}  // namespace trl::kernels
