#include "memory/checkpoint.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/path.h"
#include "tensor/use.h"

namespace trl::memory {

namespace {

using Body = std::function<std::vector<at::Tensor>(const at::Tensor&)>;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct Piece : torch::CustomClassHolder {
  explicit Piece(Body b) : body(std::move(b)) {}
  Body body;
  std::vector<tensor::Use> uses;  // of the parameters that it reads, until its graph is made
};

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  // anchor: where x has no graph, and one begins in the body.
  static tensor_list forward(AutogradContext* context, const at::Tensor& x,
                             const c10::optional<at::Tensor>& anchor, const Body& body) {
    context->saved_data["starts"] = anchor.has_value();
    context->save_for_backward({x});
    context->saved_data["plain"] = kernels::path() == kernels::Path::plain;
    const auto piece = c10::make_intrusive<Piece>(body);
    context->saved_data["piece"] = at::IValue::make_capsule(piece);
    const tensor::Reads reads;
    tensor_list y = body(x);  // apply() has turned gradients off
    piece->uses = reads.uses();
    return y;
  }

  // Weights get their gradients as a side effect of the inner backward, which runs once.
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto capsule = context->saved_data["piece"].toCapsule();
    auto& piece = static_cast<Piece&>(*capsule);
    const bool starts = context->saved_data["starts"].toBool();
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(!starts);
    tensor_list y, used, d_used;
    {
      const at::AutoGradMode recording(true);
      // of another device, backward runs on a thread of libtorch's
      const kernels::PathScope scope(context->saved_data["plain"].toBool() ? kernels::Path::plain
                                                                           : kernels::Path::fused);
      y = piece.body(x);
    }
    for (tensor::Use& use : piece.uses) use.end();  // those of the graph have taken over
    for (size_t i = 0; i < y.size(); ++i) {
      if (!grads[i].defined() || !y[i].requires_grad()) continue;
      used.push_back(y[i]);
      d_used.push_back(grads[i]);
    }
    if (!starts) return {torch::autograd::grad(used, {x}, d_used)[0], {}, {}};
    torch::autograd::backward(used, d_used);
    return {{}, {}, {}};
  }
};

}  // namespace

std::vector<at::Tensor> checkpoint_all(const at::Tensor& x, bool enabled, const Body& body, bool begins) {
  if (!enabled || !at::GradMode::is_enabled() || !(begins || x.requires_grad())) return body(x);
  c10::optional<at::Tensor> anchor;
  if (!x.requires_grad()) anchor = at::zeros({}, at::kFloat).requires_grad_();
  return Checkpoint::apply(x, anchor, body);
}

at::Tensor checkpoint(const at::Tensor& x, bool enabled,
                      const std::function<at::Tensor(const at::Tensor&)>& body) {
  return checkpoint_all(x, enabled, [body](const at::Tensor& in) { return std::vector{body(in)}; })[0];
}

}  // namespace trl::memory
