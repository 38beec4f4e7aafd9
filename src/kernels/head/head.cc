// The head as an op with a graph, and its logits.
#include "kernels/head/head.h"

#include "kernels/backend.h"
#include "kernels/gemm/gemm.h"
#include "kernels/head/head_rows.h"
#include "kernels/head/head_sweep.h"
#include "kernels/weight/weight_product.h"

namespace trl::kernels {

namespace {

constexpr int32_t kIgnored = -100;

// Computes the logits again and adds to the gradient of the head.
using Later = std::function<void(const tensor::Split& d_head)>;

struct HeadUses {
  tensor::Use head, own_rows;
  Later later = {};  // set if the gradient would occupy memory until the embedding's backward
};

// Rows of the head's gradient whose values are not read from the head; restores them, so that nothing is
// added.
class KeptRows {
 public:
  KeptRows(const tensor::Split& gradient, const OwnRows* own) {
    if (own == nullptr || !gradient.high.defined()) return;
    ids_ = at::tensor(at::IntArrayRef(own->ids), at::kLong);
    rows_.high = gradient.high.index_select(0, ids_);
    if (gradient.low.defined()) rows_.low = gradient.low.index_select(0, ids_);
  }
  void put_back(const tensor::Split& gradient) const {
    if (rows_.high.defined()) at::Tensor(gradient.high).index_copy_(0, ids_, rows_.high);
    if (rows_.low.defined()) at::Tensor(gradient.low).index_copy_(0, ids_, rows_.low);
  }

 private:
  at::Tensor ids_;
  tensor::Split rows_;
};

struct HeadLoss : torch::autograd::Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, Parameter* head,
                            const HeadTargets& targets, const TokenLoss& loss, const HeadOptions& options,
                            std::vector<TokenValues>* values) {
    at::Tensor d_hidden = tensor::zeros(hidden.sizes(), hidden.scalar_type(), MemoryKind::activations);
    const OwnRows* const own = own_rows(options);
    tensor::Use use(*head), own_use = own != nullptr ? tensor::Use(*own->rows) : tensor::Use();
    double sum = 0;
    const auto sweep = [&](const tensor::Split& d_head) {
      at::Tensor d_own;
      own_use.add([&](at::Tensor& gradient) { d_own = gradient; });
      const KeptRows kept(d_head, own);
      sum = HeadSweep(hidden, *head, targets, &loss, options, {d_hidden, d_head, d_own}).run(values);
      kept.put_back(d_head);
    };
    const bool waits = own == nullptr && use.may_wait();
    if (use && !waits) {
      use.add_split(sweep);
    } else {
      sweep({});
    }
    Later later;
    if (waits) {
      later = [=, rows = hidden.detach()](const tensor::Split& d_head) {
        HeadSweep(rows, *head, targets, &loss, options, {{}, d_head}).run(nullptr);
      };
    }
    keep(context, tensor::kHead, {d_hidden});
    keep(context, HeadUses{std::move(use), std::move(own_use), std::move(later)});
    return scalar(sum);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    check_start_of_backward(grads[0]);
    auto& uses = kept<HeadUses>(context);
    if (uses.later) uses.head.add_later(std::exchange(uses.later, {}));
    uses.head.end();
    uses.own_rows.end();
    return {kept(context)[0], {}, {}, {}, {}, {}};
  }
};

void check(const at::Tensor& hidden, const Parameter& head, const HeadTargets& targets) {
  need(hidden.dim() == 2 && head.shape().size() == 2 && hidden.size(1) == head.size(1) &&
           hidden.is_contiguous() && targets.rows.size() == targets.tokens.size(),
       "head", "hidden [rows, width], a head [vocab, width], and a token for each target's row are needed");
  int32_t before = 0;
  for (size_t i = 0; i < targets.rows.size(); ++i) {
    const int32_t row = targets.rows[i], token = targets.tokens[i];
    need(row >= before && row < hidden.size(0), "head",
         "rows of targets that ascend, within hidden, are needed");
    before = row;
    if (token >= 0 && token < head.size(0)) continue;
    fail(Status::invalid_argument, "target {} at position {}: {} has rows 0 to {}", token, row, head.name,
         head.size(0) - 1);
  }
}

void multiply_encoded(const at::Tensor& x, const tensor::Encoded& head, at::Tensor& logits) {
  if (x.size(0) <= kSkinnyRows) return skinny_products(x, SkinnyProduct{{}, {}, logits, &head});
  const Matrix rows{x.data_ptr(), x.scalar_type(), x.size(0), x.size(1), x.size(1)};
  gemm(PanelMultiplication{rows, panels(head, x.scalar_type(), true), logits.data_ptr(), at::kFloat,
                           logits.size(1)});
}

}  // namespace

HeadTargets head_targets(const at::Tensor& targets) {
  need(targets.dim() == 1 && targets.scalar_type() == at::kInt && targets.is_contiguous(), "head",
       "int32 targets [rows] are needed");
  HeadTargets list;
  const int32_t* const token = targets.data_ptr<int32_t>();
  for (int64_t row = 0; row < targets.numel(); ++row) {
    if (token[row] == kIgnored) continue;
    list.rows.push_back(static_cast<int32_t>(row));
    list.tokens.push_back(token[row]);
  }
  return list;
}

namespace fused_ops {

std::vector<TokenValues> head_values(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options) {
  std::vector<TokenValues> values;
  HeadSweep(hidden, head, targets, nullptr, options, {}).run(&values);
  return values;
}

at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenLoss& loss, const HeadOptions& options, std::vector<TokenValues>* values) {
  if (records(hidden)) return HeadLoss::apply(hidden, &head, targets, loss, options, values);
  return scalar(HeadSweep(hidden, head, targets, &loss, options, {}).run(values));
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  at::Tensor logits = tensor::empty({hidden.size(0), head.size(0)}, at::kFloat, MemoryKind::workspace);
  const at::Tensor operand = converted(hidden, options.compute, MemoryKind::workspace);
  const auto patched = own_rows(options) ? with_own_rows(head, *options.own_rows, options.compute) : nullptr;
  if (const tensor::Encoded* const encoded = patched ? patched.get() : head.encoded()) {
    multiply_encoded(operand, *encoded, logits);
  } else if (hidden.size(0) <= kSkinnyRows && head.dtype() == options.compute) {
    skinny_products(operand, SkinnyProduct{*read(head, options.compute), {}, logits});
  } else {
    gemm(operand, false, *read(head, options.compute), true, logits);
  }
  if (options.scale == 1 && options.softcap == 0) return logits;
  parallel_elements(logits.numel(), [&](int64_t begin, int64_t end) {
    cpu().head_finish(logits.data_ptr<float>() + begin, static_cast<float>(options.scale),
                      static_cast<float>(options.softcap), end - begin);
  });
  return logits;
}

}  // namespace fused_ops

std::vector<TokenValues> head_values(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options) {
  check(hidden, head, targets);
  return backend(hidden).head_values(hidden, head, targets, options);
}

at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenLoss& loss, const HeadOptions& options, std::vector<TokenValues>* values) {
  check(hidden, head, targets);
  return backend(hidden).head_loss(hidden, head, targets, loss, options, values);
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  need(hidden.dim() == 2 && hidden.is_contiguous() && hidden.size(1) == head.size(1), "head_logits",
       "hidden [rows, width] is needed");
  return backend(hidden).head_logits(hidden, head, options);
}

}  // namespace trl::kernels
