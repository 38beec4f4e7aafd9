#include "memory/row_tiles.h"

#include <torch/csrc/autograd/autograd.h>

#include "kernels/kept_outputs.h"
#include "kernels/op.h"
#include "tensor/device.h"

namespace trl::memory {

namespace {

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
    if (tiles.again) {
      kernels::keep(context, "tiles", tiles.again);
    } else {
      kernels::keep(context, "tiles", {x});
    }
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

at::Tensor by_row_tiles(const at::Tensor& x, const RowTiles& tiles, const RowBody& body) {
  const bool trains = std::any_of(tiles.parameters.begin(), tiles.parameters.end(),
                                  [](const kernels::Parameter* p) { return p->has_gradient(); });
  if (!at::GradMode::is_enabled() || !(trains || x.requires_grad())) return values(x, tiles, body);
  c10::optional<at::Tensor> anchor;
  if (!x.requires_grad()) anchor = kernels::graph_start();
  return Tiled::apply(x, anchor, tiles, body);
}

}  // namespace trl::memory
