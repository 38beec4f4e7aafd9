#include "memory/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/kept_outputs.h"
#include "kernels/op.h"
#include "kernels/path.h"
#include "tensor/device.h"
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

using kernels::MemoryKind;
using kernels::Wanted;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Calls body(first, count): the last tile also takes the remainder, so that no product has few rows.
template <typename Body>
void each_tile(int64_t rows, int64_t of_tile, const Body& body) {
  for (int64_t first = 0, count = 0; first < rows; first += count) {
    count = rows - first < 2 * of_tile ? rows - first : of_tile;
    body(first, count);
  }
}

at::Tensor values(const at::Tensor& x, const RowTiles& tiles, const RowBody& body) {
  const kernels::KeptOutputs::Without nothing_kept;
  at::Tensor all = tensor::empty({x.size(0), tiles.width}, tiles.type, MemoryKind::activations);
  each_tile(x.size(0), tiles.rows, [&](int64_t first, int64_t count) {
    tensor::copy(body(x.narrow(0, first, count), first, Wanted::values), all.narrow(0, first, count));
  });
  return all;
}

struct TiledState {
  RowTiles tiles;
  RowBody body;
  std::vector<tensor::Use> uses;  // held until the last tile, so that sums over all tiles are rounded once
  at::ScalarType type;
};

struct Tiled : torch::autograd::Function<Tiled> {
  // anchor: set if x has no graph, and one begins in the body.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const c10::optional<at::Tensor>& /*anchor*/, const RowTiles& tiles,
                            const RowBody& body) {
    TiledState state{tiles, body, {}, x.scalar_type()};
    state.tiles.again = {};  // freed in backward
    for (const kernels::Parameter* parameter : tiles.parameters) state.uses.emplace_back(*parameter);
    kernels::keep(context, std::move(state));
    if (tiles.again)
      kernels::keep(context, "tiles", tiles.again);
    else
      kernels::keep(context, "tiles", {x});
    if (tiles.wanted != Wanted::graph) return values(x, tiles, body);
    return tensor::zeros({x.size(0), tiles.width}, tiles.type, MemoryKind::activations);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& state = kernels::kept<TiledState>(context);
    const at::Tensor x =
        kernels::has_recipe(context) ? kernels::made_again(context) : kernels::kept(context)[0];
    const tensor::SavedScope saving(tensor::SavedScope::policy_again());
    const at::Tensor dy = grads[0].contiguous();
    at::Tensor dx;
    if (context->needs_input_grad(0)) dx = tensor::empty(x.sizes(), state.type, MemoryKind::activations);
    each_tile(x.size(0), state.tiles.rows, [&](int64_t first, int64_t count) {
      backward_of(state, x.narrow(0, first, count), dy.narrow(0, first, count), first,
                  dx.defined() ? dx.narrow(0, first, count) : at::Tensor());
    });
    for (tensor::Use& use : state.uses) use.end();
    return {dx, {}, {}, {}};
  }

 private:
  static void backward_of(const TiledState& state, const at::Tensor& x, const at::Tensor& dy, int64_t first,
                          const at::Tensor& dx) {
    const at::Tensor in = x.detach().requires_grad_(dx.defined());
    at::Tensor y;
    {
      const at::AutoGradMode recording(true);
      y = state.body(in, first, Wanted::graph);
    }
    if (!dx.defined()) return torch::autograd::backward({y}, {dy});
    tensor::copy(torch::autograd::grad({y}, {in}, {dy})[0], dx);
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

at::Tensor by_row_tiles(const at::Tensor& x, const RowTiles& tiles, const RowBody& body) {
  const bool trains =
      std::ranges::any_of(tiles.parameters, [](const kernels::Parameter* p) { return p->has_gradient(); });
  if (!at::GradMode::is_enabled() || !(trains || x.requires_grad())) return values(x, tiles, body);
  c10::optional<at::Tensor> anchor;
  if (!x.requires_grad()) anchor = kernels::graph_start();
  return Tiled::apply(x, anchor, tiles, body);
}

}  // namespace trl::memory
