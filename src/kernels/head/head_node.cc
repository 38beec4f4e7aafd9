#include "kernels/head/head_node.h"

#include "kernels/op.h"

namespace trl::kernels {

namespace {

// Computes the logits again and adds to the gradient of the head.
using Later = std::function<void(const tensor::Split& d_head)>;

struct Node {
  bool splits;  // the back end can add to a split gradient
  tensor::Use head, own_rows;
  Later later = {};    // set if the gradient would occupy memory until the embedding's backward
  HeadWork late = {};  // set if gradients are made in backward
};

struct Learned {
  at::Tensor loss, d_hidden;
};

// Computes a loss with its gradients; those of the head and its own rows are added through their uses.
Learned learned(const Node& node, const HeadWork& work, bool of_head, const at::Tensor& hidden, double factor,
                bool first) {
  Learned out;
  out.d_hidden = node.splits ? tensor::zeros(hidden.sizes(), hidden.scalar_type(), MemoryKind::activations)
                             : at::zeros_like(hidden.detach());
  const auto sweep = [&](const tensor::Split& d_head) {
    at::Tensor d_own;
    node.own_rows.add([&](at::Tensor& gradient) { d_own = gradient; });
    out.loss = work({hidden, {out.d_hidden, d_head, d_own}, factor, first});
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
                            const HeadOptions& options, const HeadWork& work) {
    const OwnRows* const own = own_rows(options);
    Node node{fused(hidden), tensor::Use(*head), own != nullptr ? tensor::Use(*own->rows) : tensor::Use()};
    if (!options.starts_backward) {
      const at::Tensor loss = work({hidden, {}, 1, true});
      node.late = work;
      keep(context, tensor::kHead, {hidden.detach()});
      keep(context, std::move(node));
      return loss;
    }
    const bool waits = node.splits && own == nullptr && node.head.may_wait();
    const Learned result = learned(node, work, !waits, hidden, 1, true);
    if (waits) {
      node.later = [work, rows = hidden.detach()](const tensor::Split& d_head) {
        work({rows, {{}, d_head}});
      };
    }
    keep(context, tensor::kHead, {result.d_hidden});
    keep(context, std::move(node));
    return result.loss;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& node = kept<Node>(context);
    at::Tensor x = kept(context)[0];  // the gradient of hidden, or hidden
    const auto d_loss = grads[0].item<double>();
    if (node.late)
      x = learned(node, node.late, true, x, d_loss, false).d_hidden;
    else if (d_loss != 1)
      fail(Status::internal, "head_loss: backward should start here, and got the gradient {}", d_loss);
    if (node.later) node.head.add_later(std::exchange(node.later, {}));
    node.head.end();
    node.own_rows.end();
    return {x, {}, {}, {}};
  }
};

}  // namespace

at::Tensor head_node(const at::Tensor& hidden, Parameter& head, const HeadOptions& options,
                     const HeadWork& work) {
  return HeadLoss::apply(hidden, &head, options, work);
}

}  // namespace trl::kernels
