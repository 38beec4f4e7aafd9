#include "model/block_mlp.h"

#include "kernels/kept_outputs.h"
#include "kernels/path.h"
#include "memory/row_tiles.h"

namespace trl::model {

namespace {

constexpr int64_t kTileBytes = int64_t{256} << 20;

}  // namespace

at::Tensor BlockMlp::forward(const at::Tensor& x, const kernels::Again& again, const LayerContext& context,
                             kernels::Wanted wanted) const {
  const int64_t tokens = tile_tokens(x.size(0), context);
  if (tokens >= x.size(0)) return whole(x, again, context, wanted);
  const memory::RowTiles tiles{tokens, out.out(), context.compute, wanted, again, parameters(context)};
  return memory::by_row_tiles(
      x, tiles, [own = *this, context](const at::Tensor& part, int64_t first, kernels::Wanted of_part) {
        LayerContext place = context;
        place.first += first;
        return own.whole(part, {}, place, of_part);
      });
}

at::Tensor BlockMlp::whole(const at::Tensor& x, const kernels::Again& again, const LayerContext& context,
                           kernels::Wanted wanted) const {
  return from_wide(kernels::linear(x, context.placed(in), context.compute, again), context, wanted);
}

at::Tensor BlockMlp::from_wide(const std::vector<at::Tensor>& wide, const LayerContext& context,
                               kernels::Wanted wanted) const {
  // An activation costs little compared to the product that reads it: it is computed again in backward.
  const kernels::Again activated{[this](const std::vector<at::Tensor>& parts) { return activate(parts); },
                                 wide};
  const at::Tensor y =
      kernels::linear(activate(wide), context.placed(out), context.compute, activated, wanted)[0];
  return kernels::dropout(y, context.dropout(out_dropout, DropPlace::mlp_out));
}

at::Tensor BlockMlp::activate(const std::vector<at::Tensor>& x) const {
  if (!gated) return kernels::activate(activation, x[0]);
  return x.size() == 1 ? kernels::gated(activation, x[0]) : kernels::gated(activation, x[0], x[1]);
}

// Counts the projections' outputs, the activation's output, and the gradients of both.
int64_t BlockMlp::bytes_per_token(at::ScalarType compute) const {
  int64_t wide = out.in();
  for (const kernels::Projection& p : in) wide += p.out();
  return 2 * wide * static_cast<int64_t>(c10::elementSize(compute));
}

// A tile of a multiple of kSumPiece tokens gives the bits of all tokens at once: gradients of weights are
// summed in these pieces, and products cut the rows of such tiles alike.
int64_t BlockMlp::tile_tokens(int64_t tokens, const LayerContext& context) const {
  const bool kept = (at::GradMode::is_enabled() && !context.again) || kernels::keeps_products();
  if (context.cache != nullptr || kernels::path() == kernels::Path::plain) return tokens;
  if (context.tiles.mlp_tokens == 0 && kept) return tokens;
  const int64_t wanted =
      context.tiles.mlp_tokens > 0 ? context.tiles.mlp_tokens : kTileBytes / bytes_per_token(context.compute);
  const int64_t tile = std::max(context.tile_unit, wanted / context.tile_unit * context.tile_unit);
  return tokens < 2 * tile ? tokens : tile;
}

std::vector<const kernels::Parameter*> BlockMlp::parameters(const LayerContext& context) const {
  std::vector<const kernels::Parameter*> all;
  const auto add = [&](const kernels::Projection& p) {
    const kernels::LowRank& term = p.low_rank;
    for (const kernels::Parameter* one : {p.weight, p.bias, term.a, term.b, term.bias, term.magnitude})
      if (one != nullptr) all.push_back(one);
  };
  for (const kernels::Projection& p : in) add(context.placed(p));
  add(context.placed(out));
  return all;
}

}  // namespace trl::model
