#include "memory/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/kept_outputs.h"
#include "kernels/path.h"
#include "tensor/parameter/use.h"
#include "tensor/saved.h"

namespace trl::memory {

namespace {

using config::Recomputed;
using kernels::KeptOutputs;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

KeptOutputs::Kinds kept_by(Recomputed form) {
  return {.attention = form != Recomputed::layers, .products = form == Recomputed::products};
}

struct PieceState : torch::CustomClassHolder {
  PieceState(Piece b, Recomputed form) : body(std::move(b)), outputs(kept_by(form)) {}
  Piece body;
  KeptOutputs outputs;
  tensor::Saved x;
  bool starts = false;                        // the graph begins in the body
  kernels::Path path = kernels::Path::fused;  // the same for both runs
  std::vector<tensor::Use> uses;              // for the parameters that it reads, until its graph exists
};

struct Recompute : torch::autograd::Function<Recompute> {
  // anchor: set if x has no graph, and one begins in the body.
  static tensor_list forward(AutogradContext* context, const at::Tensor& x,
                             const c10::optional<at::Tensor>& anchor, const Piece& body, Recomputed form) {
    const auto state = c10::make_intrusive<PieceState>(body, form);
    state->starts = anchor.has_value();
    state->path = kernels::path();
    state->x = tensor::Saved(x, tensor::kLayerInput);
    context->saved_data["state"] = at::IValue::make_capsule(state);
    // A piece within another belongs to the outer one.
    KeptOutputs* const around = KeptOutputs::current();
    const KeptOutputs::Run run(around != nullptr ? *around : state->outputs,
                               around != nullptr && around->again());
    const tensor::Reads reads;
    tensor_list y = body(x);  // apply() has turned gradients off
    state->uses = reads.uses();
    reads.end_piece();
    return y;
  }

  // Weights get their gradients as a side effect of the inner backward, which runs once.
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto capsule = context->saved_data["state"].toCapsule();
    auto& state = static_cast<PieceState&>(*capsule);
    const tensor::SavedScope saving(tensor::SavedScope::policy_again());
    const at::Tensor x = std::exchange(state.x, {}).get().detach().requires_grad_(!state.starts);
    tensor_list y, used, d_used;
    {
      const at::AutoGradMode recording(true);
      const kernels::PathScope scope(state.path);  // with another device, this is one of libtorch's threads
      const KeptOutputs::Run run(state.outputs, true);
      y = state.body(x);
    }
    for (tensor::Use& use : state.uses) use.end();  // the uses of the new graph have replaced them
    for (size_t i = 0; i < y.size(); ++i) {
      if (!grads[i].defined() || !y[i].requires_grad()) continue;
      used.push_back(y[i]);
      d_used.push_back(grads[i]);
    }
    if (!state.starts) return {torch::autograd::grad(used, {x}, d_used)[0], {}, {}, {}};
    torch::autograd::backward(used, d_used);
    return {{}, {}, {}, {}};
  }
};

}  // namespace

bool computes_again() {
  const KeptOutputs* const piece = KeptOutputs::current();
  return piece != nullptr && piece->again();
}

std::vector<at::Tensor> recompute(const at::Tensor& x, Recomputed form, const Piece& body, bool begins) {
  if (form == Recomputed::nothing || !at::GradMode::is_enabled() || !(begins || x.requires_grad()))
    return body(x);
  c10::optional<at::Tensor> anchor;
  if (!x.requires_grad()) anchor = at::zeros({}, at::kFloat).requires_grad_();
  return Recompute::apply(x, anchor, body, form);
}

}  // namespace trl::memory
