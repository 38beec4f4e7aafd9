// The head's loss from whole logits and their log-softmax in float32, a tile of rows at a time: each tile's
// graph is gone before the next one is made.
#include <torch/csrc/autograd/autograd.h>

#include "kernels/head_rows.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels::plain {

namespace {

// Rows with a target, and their targets, on the device of hidden.
struct Targets {
  std::vector<int64_t> rows;
  at::Tensor row, target;  // int64

  Targets(const at::Tensor& hidden, const Parameter& head, const at::Tensor& targets) {
    std::vector<int64_t> values;
    const int32_t* const id = targets.data_ptr<int32_t>();
    for (int64_t r = 0; r < targets.numel(); ++r) {
      if (id[r] == kIgnored) continue;
      check_target(head, id[r], r);
      rows.push_back(r);
      values.push_back(id[r]);
    }
    row = at::tensor(rows, at::kLong).to(hidden.device());
    target = at::tensor(values, at::kLong).to(hidden.device());
  }
};

struct Rows {
  at::Tensor loss, nll, entropy, correct;  // one of each row

  Rows(const at::Tensor& logits, const at::Tensor& target, const HeadOptions& options) {
    const at::Tensor log_p = logits.log_softmax(-1);
    nll = -log_p.gather(1, target.unsqueeze(1)).squeeze(1);
    loss = nll;
    if (options.dft) loss = nll * (-nll.detach()).exp();
    if (options.smoothing > 0) loss = (1 - options.smoothing) * nll - options.smoothing * log_p.mean(-1);
    entropy = at::special_entr(log_p.detach().exp()).sum(-1);
    correct = logits.detach().argmax(-1).eq(target);
  }
  at::Tensor sums() const {
    const auto sum = [](const at::Tensor& x) { return x.detach().sum(at::kDouble); };
    return at::stack({sum(loss), sum(nll), sum(entropy), sum(correct)});
  }
};

at::Tensor finished(const at::Tensor& products, const HeadOptions& options) {
  const at::Tensor logits = options.scale == 1 ? products : products * options.scale;
  return options.softcap > 0 ? (logits / options.softcap).tanh() * options.softcap : logits;
}

at::Tensor ids_of(const OwnRows& own, at::Device device) {
  return at::tensor(at::IntArrayRef(own.ids), at::kLong).to(device);
}

at::Tensor table_of(Parameter& head, const HeadOptions& options) {
  const at::Tensor table = head.read()->detach();
  const OwnRows* const own = own_rows(options);
  if (own == nullptr) return table;
  return table.index_copy(0, ids_of(*own, table.device()), own->rows->read()->to(table.scalar_type()));
}

// d_hidden: zero; d_head, d_own: added to. Undefined: no gradient of that.
void sweep_tiles(const at::Tensor& hidden, Parameter& head, const at::Tensor& targets, double loss_scale,
                 const HeadOptions& options, HeadSums& out, at::Tensor d_hidden, const at::Tensor& d_head,
                 at::Tensor d_own) {
  const Targets valid(hidden, head, targets);
  const auto count = static_cast<int64_t>(valid.rows.size());
  out.count = count;
  out.log_probs.assign(options.log_probs ? static_cast<size_t>(hidden.size(0)) : 0, 0.0f);
  if (count == 0) return;
  const int64_t tile = std::max<int64_t>(1, options.tile_rows);
  at::Tensor weight = table_of(head, options), d_weight = d_head, ids;
  if (own_rows(options) != nullptr) ids = ids_of(*options.own_rows, hidden.device());
  const bool of_weight = d_head.defined() || d_own.defined();
  weight.set_requires_grad(of_weight);
  if (d_head.defined()) {
    if (tile < count) d_weight = d_head.to(wide_type(d_head));  // itself, or a wide one where tiles add to it
  }
  at::Tensor sums;
  std::vector<at::Tensor> nll;
  for (int64_t first = 0; first < count; first += tile) {
    base::poll();
    const int64_t rows = std::min(tile, count - first);
    const at::Tensor row = valid.row.narrow(0, first, rows);
    at::Tensor x = hidden.detach().index_select(0, row);
    const at::AutoGradMode recording(d_hidden.defined());
    x.set_requires_grad(d_hidden.defined());
    at::Tensor logits = product(x.to(options.compute), weight.to(options.compute));
    logits = finished(logits.to(wide_type(logits)), options);
    const Rows results(logits, valid.target.narrow(0, first, rows), options);
    sums = sums.defined() ? sums + results.sums() : results.sums();
    if (options.log_probs) nll.push_back(results.nll.detach());
    if (!d_hidden.defined()) continue;
    tensor_list leaves{x};
    if (of_weight) leaves.push_back(weight);
    const tensor_list grads = torch::autograd::grad({results.loss.sum() * loss_scale}, leaves);
    d_hidden.index_copy_(0, row, grads[0]);
    if (d_own.defined()) d_own.add_(grads[1].index_select(0, ids));
    if (d_head.defined()) d_weight.add_(ids.defined() ? grads[1].index_fill(0, ids, 0) : grads[1]);
  }
  if (d_head.defined() && !d_weight.is_same(d_head)) d_head.copy_(d_weight);
  const at::Tensor host = sums.cpu();
  const double* const sum = host.data_ptr<double>();
  out.loss = sum[0];
  out.nll = sum[1];
  out.entropy = sum[2];
  out.correct = static_cast<int64_t>(sum[3]);
  if (!options.log_probs) return;
  const at::Tensor all = at::cat(nll).to(at::kCPU, at::kFloat);
  for (int64_t i = 0; i < count; ++i)
    out.log_probs[static_cast<size_t>(valid.rows[static_cast<size_t>(i)])] = -all.data_ptr<float>()[i];
}

at::Tensor scalar(double value, const at::Tensor& hidden) {
  return at::full({}, value, hidden.options().dtype(wide_type(hidden)));
}

struct HeadUses {
  tensor::Use head, own_rows;
};

// Gradients are made together with the loss.
struct HeadLoss : torch::autograd::Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, Parameter* head,
                            const at::Tensor& targets, double loss_scale, const HeadOptions& options,
                            HeadSums* sums) {
    const at::Tensor d_hidden = at::zeros_like(hidden.detach());
    const OwnRows* const own = own_rows(options);
    tensor::Use use(*head), own_use = own != nullptr ? tensor::Use(*own->rows) : tensor::Use();
    const auto sweep = [&](const at::Tensor& d_head) {
      at::Tensor d_own;
      own_use.add([&](at::Tensor& gradient) { d_own = gradient; });
      sweep_tiles(hidden, *head, targets, loss_scale, options, *sums, d_hidden, d_head, d_own);
    };
    if (use) {
      use.add(sweep);
    } else {
      sweep({});
    }
    keep(context, tensor::kHead, {d_hidden});
    keep(context, HeadUses{std::move(use), std::move(own_use)});
    return scalar(sums->loss * loss_scale, hidden);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    check_start_of_backward(grads[0]);
    auto& uses = kept<HeadUses>(context);
    uses.head.end();
    uses.own_rows.end();
    return {kept(context)[0], {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const at::Tensor& targets, double loss_scale,
                     const HeadOptions& options, HeadSums& sums) {
  if (records(hidden)) return HeadLoss::apply(hidden, &head, targets, loss_scale, options, &sums);
  sweep_tiles(hidden, head, targets, loss_scale, options, sums, {}, {}, {});
  return scalar(sums.loss * loss_scale, hidden);
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  const at::Tensor products =
      product(hidden.to(options.compute), table_of(head, options).to(options.compute));
  return finished(products.to(at::kFloat), options);
}

}  // namespace trl::kernels::plain
