// Fused ops against the plain path: values and gradients, for every table of instruction sets; and both
// against central differences.
#pragma once
#include <functional>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/path.h"
#include "kernels/reference.h"

namespace trl::test {

using kernels::Path;
using kernels::PathScope;

// body() with each table that this machine can run.
template <typename Body>
void each_table(const Body& body) {
  for (const kernels::CpuKernels* const* table = kernels::cpu_variants(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->name);
    kernels::use_cpu(**table);
    body();
  }
  kernels::use_cpu(*kernels::cpu_variants()[0]);
}

// An op of some inputs and weights, with one output.
struct Comparison {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> weights;
  std::function<at::Tensor(const std::vector<at::Tensor>&, std::vector<Parameter>&)> op;
  at::ScalarType grad_type = at::kFloat;  // of the weights
};

struct Results {
  at::Tensor y;
  std::vector<at::Tensor> gradients;  // of the inputs, then of the weights
};

inline Results run(const Comparison& c, Path path) {
  const PathScope scope(path);
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& x : c.inputs) inputs.push_back(leaf(x));
  std::vector<Parameter> weights;
  for (const at::Tensor& w : c.weights) weights.push_back(parameter(w, c.grad_type));
  Results r;
  r.y = c.op(inputs, weights);
  // The loss of a head is where backward starts.
  const at::Tensor dy = r.y.dim() == 0 ? at::ones_like(r.y) : random(r.y.sizes(), 99).to(r.y.scalar_type());
  r.gradients = torch::autograd::grad({r.y}, inputs, {dy});
  for (const Parameter& w : weights) r.gradients.push_back(w.gradient());
  r.y = r.y.detach();
  return r;
}

// limit: of values; times: what gradients may be worse by.
inline void expect_fused_is_plain(const Comparison& c, double limit, double times = 1) {
  const Results want = run(c, Path::plain);
  each_table([&] {
    const Results got = run(c, Path::fused);
    EXPECT_EQ(got.y.scalar_type(), want.y.scalar_type());
    EXPECT_LT(error_of(got.y, want.y), limit);
    ASSERT_EQ(got.gradients.size(), want.gradients.size());
    for (size_t i = 0; i < want.gradients.size(); ++i) {
      EXPECT_EQ(got.gradients[i].scalar_type(), want.gradients[i].scalar_type()) << "gradient " << i;
      EXPECT_LT(error_of(got.gradients[i], want.gradients[i], 1.0), times * limit) << "gradient " << i;
    }
  });
}

// The derivative along a random direction, from gradients and from a central difference with steps of h. The
// error is relative to the size of the gradients.
inline double gradient_error(const Comparison& c, Path path, double h) {
  const Results at_point = run(c, path);
  const at::Tensor dy = at_point.y.dim() == 0 ? at::ones_like(at_point.y)
                                              : random(at_point.y.sizes(), 99).to(at_point.y.scalar_type());
  Comparison ahead = c, behind = c;
  double want = 0, size = 0;
  for (size_t i = 0; i < at_point.gradients.size(); ++i) {
    const bool input = i < c.inputs.size();
    const size_t k = input ? i : i - c.inputs.size();
    const at::Tensor& x = input ? c.inputs[k] : c.weights[k];
    const at::Tensor u = random(x.sizes(), static_cast<int64_t>(200 + i)).to(x.scalar_type());
    const at::Tensor gradient = at_point.gradients[i].to(at::kDouble);
    want += (gradient * u).sum().item<double>();
    size += gradient.square().sum().item<double>();
    (input ? ahead.inputs : ahead.weights)[k] = x + h * u;
    (input ? behind.inputs : behind.weights)[k] = x - h * u;
  }
  const at::NoGradGuard no_grad;
  const auto value = [&](const Comparison& at) {
    const PathScope scope(path);
    std::vector<Parameter> weights;
    for (const at::Tensor& w : at.weights) weights.push_back(parameter(w, at.grad_type));
    return (at.op(at.inputs, weights).to(at::kDouble) * dy).sum().item<double>();
  };
  const double got = (value(ahead) - value(behind)) / (2 * h);
  return std::abs(got - want) / std::max(1e-3, std::sqrt(size));
}

// Float32 for the fused kernels, and double for the plain path where it is asked for.
inline void expect_gradients(const Comparison& c, double h = 1e-2, double limit = 2e-3) {
  each_table([&] { EXPECT_LT(gradient_error(c, Path::fused, h), limit); });
  EXPECT_LT(gradient_error(c, Path::plain, h), limit);
}
inline void expect_plain_gradients_in_double(Comparison c) {
  for (at::Tensor& x : c.inputs) x = x.to(at::kDouble);
  for (at::Tensor& w : c.weights) w = w.to(at::kDouble);
  c.grad_type = at::kDouble;
  EXPECT_LT(gradient_error(c, Path::plain, 1e-5), 1e-8);
}

inline kernels::SegmentsPtr segments(const std::vector<int64_t>& lengths) {
  auto made = std::make_shared<kernels::Segments>();
  made->cu_seqlens.push_back(0);
  for (const int64_t length : lengths) {
    made->cu_seqlens.push_back(made->cu_seqlens.back() + static_cast<int32_t>(length));
    made->max_length = std::max(made->max_length, length);
  }
  return made;
}

}  // namespace trl::test
