// The head as an op with a graph, and its logits.
#include "kernels/head/head.h"

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/gemm/gemm.h"
#include "kernels/head/head_sweep.h"
#include "kernels/weight/weight_product.h"

namespace trl::kernels {

namespace {

constexpr int32_t kIgnored = -100;

// Computes the logits again and adds to the gradient of the head.
using Later = std::function<void(const tensor::Split& d_head)>;

// The arguments of a loss whose gradients are made in backward.
struct LateLoss {
  HeadTargets targets;
  TokenFormula formula;
  HeadOptions options;
  OwnRows own;  // those of the options
};

// The node of a loss. Gradients are added by the back end and the way that its forward took.
struct HeadNode {
  const Backend* ops;
  bool splits;  // the back end can add to a split gradient
  Parameter* parameter;
  tensor::Use head, own_rows;
  Later later = {};  // set if the gradient would occupy memory until the embedding's backward
  std::optional<LateLoss> late = {};
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

struct Learned {
  at::Tensor loss, d_hidden;
};

// Computes a loss with its gradients; those of the head and its own rows are added through their uses.
Learned learned(const HeadNode& node, bool of_head, const at::Tensor& hidden, const HeadTargets& targets,
                const TokenFormula& formula, const HeadOptions& options, std::vector<TokenValues>* values) {
  Learned out;
  out.d_hidden = node.splits ? tensor::zeros(hidden.sizes(), hidden.scalar_type(), MemoryKind::activations)
                             : at::zeros_like(hidden.detach());
  const auto sweep = [&](const tensor::Split& d_head) {
    at::Tensor d_own;
    node.own_rows.add([&](at::Tensor& gradient) { d_own = gradient; });
    out.loss = node.ops->head_sweep(hidden, *node.parameter, targets, &formula, options,
                                    {out.d_hidden, d_head, d_own}, values);
  };
  if (!node.head || !of_head)
    sweep({});
  else if (node.splits)
    node.head.add_split(sweep);
  else
    node.head.add([&](at::Tensor& gradient) { sweep({gradient, {}}); });
  return out;
}

struct HeadLoss : torch::autograd::Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, Parameter* head,
                            const HeadTargets& targets, const TokenFormula& formula,
                            const HeadOptions& options, std::vector<TokenValues>* values) {
    const OwnRows* const own = own_rows(options);
    HeadNode node{&backend(hidden), fused(hidden), head, tensor::Use(*head),
                  own != nullptr ? tensor::Use(*own->rows) : tensor::Use()};
    if (!options.starts_backward) {
      node.late = LateLoss{targets, formula, options, own != nullptr ? *own : OwnRows()};
      const at::Tensor loss = node.ops->head_sweep(hidden, *head, targets, &formula, options, {}, values);
      keep(context, tensor::kHead, {hidden.detach()});
      keep(context, std::move(node));
      return loss;
    }
    const bool waits = node.splits && own == nullptr && node.head.may_wait();
    const Learned result = learned(node, !waits, hidden, targets, formula, options, values);
    if (waits) {
      node.later = [=, ops = node.ops, rows = hidden.detach()](const tensor::Split& d_head) {
        ops->head_sweep(rows, *head, targets, &formula, options, {{}, d_head}, nullptr);
      };
    }
    keep(context, tensor::kHead, {result.d_hidden});
    keep(context, std::move(node));
    return result.loss;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& node = kept<HeadNode>(context);
    at::Tensor x = kept(context)[0];  // the gradient of hidden, or hidden
    const auto d_loss = grads[0].item<double>();
    if (node.late) {
      node.late->formula.scale *= d_loss;
      node.late->options.own_rows = &node.late->own;
      x = learned(node, true, x, node.late->targets, node.late->formula, node.late->options, nullptr)
              .d_hidden;
    } else if (d_loss != 1) {
      fail(Status::internal, "head_loss: backward should start here, and got the gradient {}", d_loss);
    }
    if (node.later) node.head.add_later(std::exchange(node.later, {}));
    node.head.end();
    node.own_rows.end();
    return {x, {}, {}, {}, {}, {}};
  }
};

void check(const at::Tensor& hidden, const Parameter& head, const HeadTargets& targets,
           const HeadOptions& options) {
  need(!options.as_generated || fused(hidden), "head",
       "the fused kernels are needed for log-probabilities of generation");
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

// Own rows are not part of the copy: their logits are computed apart.
void multiply_copy(const at::Tensor& x, const HeadOptions& options, at::Tensor& logits) {
  skinny_products(x, SkinnyProduct{{}, {}, logits, nullptr, 0, options.narrow});
  const OwnRows* const own = own_rows(options);
  if (own == nullptr) return;
  const auto count = static_cast<int64_t>(own->ids.size());
  const at::Tensor own_logits = tensor::empty({x.size(0), count}, at::kFloat, MemoryKind::workspace);
  skinny_products(x, SkinnyProduct{*read(*own->rows, x.scalar_type()), {}, own_logits});
  tensor::parallel_for(x.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < count; ++i)
        logits.data_ptr<float>()[r * logits.size(1) + own->ids[static_cast<size_t>(i)]] =
            own_logits.data_ptr<float>()[r * count + i];
    }
  });
}

void multiply_encoded(const at::Tensor& x, const tensor::Encoded& head, at::Tensor& logits) {
  if (x.size(0) <= kSkinnyRows || IndependentRows::active())
    return skinny_products(x, SkinnyProduct{{}, {}, logits, &head});
  const Matrix rows{x.data_ptr(), x.scalar_type(), x.size(0), x.size(1), x.size(1)};
  gemm(PanelMultiplication{rows, panels(head, x.scalar_type(), true), logits.data_ptr(), at::kFloat,
                           logits.size(1)});
}

class PatchedHead final : public tensor::Encoded {
 public:
  PatchedHead(Parameter& head, const OwnRows& own, at::ScalarType type)
      : Encoded(head.shape().vec()),
        encoded_(head.encoded()),
        table_(encoded_ == nullptr ? std::optional(head.read_either(type, &convert)) : std::nullopt),
        rows_(own.rows->read()) {
    for (size_t i = 0; i < own.ids.size(); ++i) places_.emplace_back(own.ids[i], static_cast<int64_t>(i));
    std::ranges::sort(places_);
  }

  std::string form() const override { return "a table with rows of an adapter"; }
  int64_t unit() const override { return encoded_ != nullptr ? encoded_->unit() : 1; }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    const auto copy = [&](const at::Tensor& from, int64_t from_row, int64_t row) {
      cpu().convert(
          at_byte(from, from_row * width() + part.column), type_of(from),
          static_cast<char*>(to) + (row - part.row) * stride * static_cast<int64_t>(c10::elementSize(type)),
          type_of(type), part.columns);
    };
    if (encoded_ != nullptr)
      encoded_->decode(part, type, to, stride);
    else
      for (int64_t row = part.row; row < part.row + part.rows; ++row) copy(**table_, row, row);
    auto place = std::ranges::lower_bound(places_, std::pair<int64_t, int64_t>(part.row, 0));
    for (; place != places_.end() && place->first < part.row + part.rows; ++place)
      copy(*rows_, place->second, place->first);
  }

 private:
  const tensor::Encoded* const encoded_;  // instead of table_
  const std::optional<tensor::Reading> table_;
  const tensor::Reading rows_;
  std::vector<std::pair<int64_t, int64_t>> places_;  // row of the head, row of the adapter's
};

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

at::Tensor head_sweep(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                      const TokenFormula* formula, const HeadOptions& options, const HeadGradients& gradients,
                      std::vector<TokenValues>* values) {
  const KeptRows kept(gradients.d_head, own_rows(options));
  const double sum = HeadSweep(hidden, head, targets, formula, options, gradients).run(values);
  kept.put_back(gradients.d_head);
  return scalar(sum);
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  at::Tensor logits = tensor::empty({hidden.size(0), head.size(0)}, at::kFloat, MemoryKind::workspace);
  const at::Tensor operand = converted(hidden, options.compute, MemoryKind::workspace);
  const bool patches = options.narrow == nullptr && own_rows(options) != nullptr;
  const auto patched = patches ? with_own_rows(head, *options.own_rows, options.compute) : nullptr;
  if (options.narrow != nullptr)
    multiply_copy(operand, options, logits);
  else if (const tensor::Encoded* const encoded = patched ? patched.get() : head.encoded())
    multiply_encoded(operand, *encoded, logits);
  else if ((hidden.size(0) <= kSkinnyRows || IndependentRows::active()) && head.dtype() == options.compute)
    skinny_products(operand, SkinnyProduct{*read(head, options.compute), {}, logits});
  else
    gemm(operand, false, *read(head, options.compute), true, logits);
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
  check(hidden, head, targets, options);
  std::vector<TokenValues> values;
  backend(hidden).head_sweep(hidden, head, targets, nullptr, options, {}, &values);
  return values;
}

at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenFormula& formula, const HeadOptions& options,
                     std::vector<TokenValues>* values) {
  check(hidden, head, targets, options);
  for (const std::vector<double>& column : formula.columns)
    need(column.size() == targets.rows.size(), "head", "a number for each target is needed");
  if (records(hidden)) return HeadLoss::apply(hidden, &head, targets, formula, options, values);
  return backend(hidden).head_sweep(hidden, head, targets, &formula, options, {}, values);
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  need(hidden.dim() == 2 && hidden.is_contiguous() && hidden.size(1) == head.size(1), "head_logits",
       "hidden [rows, width] is needed");
  return backend(hidden).head_logits(hidden, head, options);
}

std::unique_ptr<const tensor::Encoded> with_own_rows(Parameter& head, const OwnRows& own,
                                                     at::ScalarType type) {
  return std::make_unique<PatchedHead>(head, own, type);
}

}  // namespace trl::kernels
