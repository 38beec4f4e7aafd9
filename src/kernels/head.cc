// The language-modelling head with its loss, by tiles of rows: logits of one tile, their statistics, and in
// the same place the gradient of them, which goes into grad hidden and the head's gradient before the next
// tile is made.
#include "kernels/gemm.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels {

namespace {

constexpr int32_t kIgnored = -100;

struct Sweep {
  at::Tensor operand;  // [valid rows, width] in the type of the product
  at::Tensor weight;   // the head in that type
  at::Tensor d_operand;
  std::vector<int64_t> rows;  // with a target
};

// Rows with a target, moved together; grad of the others is 0.
Sweep gather(const at::Tensor& hidden, const Parameter& head, const at::Tensor& targets,
             at::ScalarType compute) {
  Sweep sweep;
  const int32_t* const target = targets.data_ptr<int32_t>();
  for (int64_t r = 0; r < targets.size(0); ++r) {
    if (target[r] == kIgnored) continue;
    check_target(head, target[r], r);
    sweep.rows.push_back(r);
  }
  const auto count = static_cast<int64_t>(sweep.rows.size());
  const int64_t width = hidden.size(1);
  sweep.operand = tensor::empty({count, width}, compute, MemoryKind::workspace);
  tensor::parallel_for(count, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      cpu().convert(at_byte(hidden, sweep.rows[static_cast<size_t>(i)] * width), type_of(hidden),
                    at_byte(sweep.operand, i * width), type_of(compute), width);
    }
  });
  if (count > 0) sweep.weight = converted(head.value, compute, MemoryKind::workspace);
  return sweep;
}

void add_row(const HeadRow& row, int32_t target, HeadSums& sums) {
  sums.loss += row.loss;
  sums.nll += row.nll;
  sums.entropy += row.entropy;
  sums.correct += row.best == target;
  ++sums.count;
}

// d_hidden: [rows, width], zero; undefined: no gradient.
void sweep_tiles(const at::Tensor& hidden, Parameter& head, const at::Tensor& targets, double loss_scale,
                 const HeadOptions& options, HeadSums& sums, const at::Tensor& d_hidden) {
  const Sweep sweep = gather(hidden, head, targets, options.compute);
  const auto count = static_cast<int64_t>(sweep.rows.size());
  sums.log_probs.assign(options.log_probs ? static_cast<size_t>(hidden.size(0)) : 0, 0.0f);
  if (count == 0) return;
  const int64_t vocab = head.value.size(0), width = hidden.size(1);
  const int64_t tile = std::min(count, std::max<int64_t>(1, options.tile_rows));
  const int32_t* const target = targets.data_ptr<int32_t>();
  at::Tensor buffer = tensor::empty({tile, vocab}, options.compute, MemoryKind::workspace);
  at::Tensor d_rows;
  if (d_hidden.defined()) d_rows = tensor::empty({tile, width}, hidden.scalar_type(), MemoryKind::workspace);
  std::vector<HeadRow> results(static_cast<size_t>(tile));
  for (int64_t first = 0; first < count; first += tile) {
    const int64_t rows = std::min(tile, count - first);
    const int64_t* const row_ids = sweep.rows.data() + first;
    at::Tensor logits = buffer.narrow(0, 0, rows);
    const at::Tensor operand = sweep.operand.narrow(0, first, rows);
    gemm(operand, false, sweep.weight, true, logits);
    tensor::parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        results[static_cast<size_t>(i)] =
            cpu().head_row(at_byte(logits, i * vocab), type_of(logits), vocab,
                           {target[row_ids[i]], static_cast<float>(loss_scale),
                            static_cast<float>(options.smoothing), options.dft, d_hidden.defined()});
      }
    });
    for (int64_t i = 0; i < rows; ++i) {
      add_row(results[static_cast<size_t>(i)], target[row_ids[i]], sums);
      if (options.log_probs) {
        sums.log_probs[static_cast<size_t>(row_ids[i])] =
            static_cast<float>(-results[static_cast<size_t>(i)].nll);
      }
    }
    if (!d_hidden.defined()) continue;
    at::Tensor d_tile = d_rows.narrow(0, 0, rows);
    gemm(logits, false, sweep.weight, false, d_tile);
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(at_byte(d_hidden, row_ids[i] * width), at_byte(d_tile, i * width),
                  static_cast<size_t>(width) * d_tile.element_size());
    }
    if (head.trainable()) gemm(logits, true, operand, false, head.grad, 1.0f);
  }
}

at::Tensor scalar(double value) {
  at::Tensor out = tensor::empty({}, at::kFloat, MemoryKind::activations);
  *out.data_ptr<float>() = static_cast<float>(value);
  return out;
}

struct HeadLoss : torch::autograd::Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, Parameter* head,
                            const at::Tensor& targets, double loss_scale, const HeadOptions& options,
                            HeadSums* sums) {
    at::Tensor d_hidden = tensor::zeros(hidden.sizes(), hidden.scalar_type(), MemoryKind::activations);
    sweep_tiles(hidden, *head, targets, loss_scale, options, *sums, d_hidden);
    context->save_for_backward({d_hidden});
    return scalar(sums->loss * loss_scale);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    check_start_of_backward(grads[0]);
    return {context->get_saved_variables()[0], {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const at::Tensor& targets, double loss_scale,
                     const HeadOptions& options, HeadSums* sums) {
  need(hidden.dim() == 2 && head.value.dim() == 2 && hidden.size(1) == head.value.size(1) &&
           targets.dim() == 1 && targets.size(0) == hidden.size(0) && targets.scalar_type() == at::kInt &&
           hidden.is_contiguous() && targets.is_contiguous() && head.value.is_contiguous(),
       "head_loss", "hidden [rows, width], a head [vocab, width] and int32 targets [rows] are needed");
  HeadSums own;
  HeadSums& out = sums != nullptr ? *sums : own;
  out = HeadSums{};
  if (!fused(hidden)) return plain::head_loss(hidden, head, targets, loss_scale, options, out);
  if (records(hidden)) return HeadLoss::apply(hidden, &head, targets, loss_scale, options, &out);
  sweep_tiles(hidden, head, targets, loss_scale, options, out, {});
  return scalar(out.loss * loss_scale);
}

at::Tensor head_logits(const at::Tensor& hidden, const Parameter& head, at::ScalarType compute) {
  need(hidden.dim() == 2 && hidden.is_contiguous() && hidden.size(1) == head.value.size(1), "head_logits",
       "hidden [rows, width] is needed");
  if (!fused(hidden)) return plain::head_logits(hidden, head, compute);
  at::Tensor logits = tensor::empty({hidden.size(0), head.value.size(0)}, at::kFloat, MemoryKind::workspace);
  const at::Tensor operand = converted(hidden, compute, MemoryKind::workspace);
  if (hidden.size(0) <= kSkinnyRows && head.value.scalar_type() == compute) {
    skinny_product(operand, head.value, logits);
  } else {
    gemm(operand, false, converted(head.value, compute, MemoryKind::workspace), true, logits);
  }
  return logits;
}

}  // namespace trl::kernels
