// The divergence from whole log-softmaxes in float32, a tile of rows at a time.
#include "kernels/head/divergence.h"
#include "kernels/head/plain_table.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels::plain {

namespace {

// The sum over the vocabulary of p (log p - log m); a probability of 0 adds nothing.
at::Tensor divergence_from(const at::Tensor& p, const at::Tensor& log_p, const at::Tensor& log_m) {
  return at::where(p == 0, at::zeros_like(p), p * (log_p - log_m)).sum(-1, true);
}

}  // namespace

at::Tensor divergence_sweep(const HeadInput& student, const HeadInput& teacher,
                            const std::vector<double>& counts, const Divergence& divergence,
                            const HeadGradients& gradients, DivergenceValues* values) {
  const HeadGradients none;
  PlainTable own(student.hidden, student.head, student.options, gradients);
  PlainTable other(teacher.hidden, teacher.head, teacher.options, none);
  const double beta = divergence.beta;
  const auto count = std::ssize(counts);
  const int64_t most = std::min(own.tile_rows(), other.tile_rows());
  double sum = 0;
  own.begin(most < count);
  for (int64_t first = 0; first < count; first += most) {
    base::poll();
    const int64_t size = std::min(most, count - first);
    const at::Device device = student.hidden.device();
    const auto of_rows = [&](const std::vector<int64_t>& all) {
      return at::tensor(at::IntArrayRef(all.data() + first, size), at::kLong).to(device);
    };
    const at::Tensor row = of_rows(student.rows);
    const at::Tensor weights =
        at::tensor(at::ArrayRef<double>(counts.data() + first, size), at::kDouble).unsqueeze(1).to(device);
    const at::Tensor x = student.hidden.detach().index_select(0, row).to(student.options.compute);
    const at::Tensor y =
        teacher.hidden.detach().index_select(0, of_rows(teacher.rows)).to(teacher.options.compute);
    const at::Tensor logits = own.logits(x);
    const at::Tensor log_p = logits.log_softmax(-1), log_q = other.logits(y).log_softmax(-1);
    const at::Tensor p = log_p.exp(), q = log_q.exp();
    if (values != nullptr) {
      const at::Tensor entropy = at::where(p == 0, at::zeros_like(p), p * log_p).sum(-1, true).neg();
      values->entropy += (entropy.to(at::kDouble) * weights).sum().item<double>();
    }
    at::Tensor value, d;
    if (beta == 0) {
      value = divergence_from(q, log_q, log_p);
      d = p - q;
    } else {
      const at::Tensor log_m =
          beta == 1 ? log_q : at::logaddexp(log_p + std::log1p(-beta), log_q + std::log(beta));
      const double share = beta == 1 ? 1 : 1 - beta;
      const at::Tensor of_student = divergence_from(p, log_p, log_m);
      value = of_student * share;
      if (beta != 1) value = value + divergence_from(q, log_q, log_m) * beta;
      d = at::where(p == 0, at::zeros_like(p), p * (log_p - log_m - of_student)) * share;
    }
    sum += (value.to(at::kDouble) * weights).sum().item<double>();
    if (own.learns()) own.add(row, x, logits, d.mul_(weights.to(d.scalar_type())).mul_(divergence.scale));
  }
  own.finish();
  return at::full({}, sum * divergence.scale, student.hidden.options().dtype(wide_type(student.hidden)));
}

}  // namespace trl::kernels::plain
