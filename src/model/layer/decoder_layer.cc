#include "model/layer/decoder_layer.h"

#include "kernels/gemm/gemm.h"
#include "kernels/kept_outputs.h"
#include "kernels/path.h"
#include "memory/recompute.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {

// A norm costs little compared to the products that read it: it is computed again in backward.
kernels::Again again(const at::Tensor& stream, const Norm& norm) {
  if (norm.weight == nullptr) return {};
  return {[norm](const std::vector<at::Tensor>& from) { return kernels::norm(from[0], norm); }, {stream}};
}

// The results that are needed of an output that is only added to the stream, after the norm if there is one.
kernels::Wanted wanted_before(const Norm& norm, const LayerContext& context) {
  if (norm.weight != nullptr) return kernels::Wanted::values;
  return context.again ? kernels::Wanted::graph : kernels::Wanted::added;
}

constexpr int64_t kTileBytes = int64_t{256} << 20;

}  // namespace

DecoderLayer::Result DecoderLayer::forward(const at::Tensor& x, const LayerContext& context) const {
  const kernels::IndependentRows independent(context.as_generated);
  const Norm first_norm = context.placed(attention_norm), second_norm = context.placed(mlp_norm);
  const Norm last_norm = context.placed(mlp_post_norm);
  const auto [before, input] = residual(x, {}, first_norm);
  const auto wanted = parallel ? wanted_before(attention_post_norm, context) : kernels::Wanted::values;
  const at::Tensor attended = normed(attention.forward(input, again(before, first_norm), context, wanted),
                                     context.placed(attention_post_norm));
  if (parallel) {
    const bool own = second_norm.weight != nullptr;
    const BlockExperts::Result fed = feed(own ? normed(before, second_norm) : input,
                                          again(before, own ? second_norm : first_norm), context);
    const at::Tensor stream = kernels::add(before, attended, branch_scale);
    return {kernels::add(stream, normed(fed.y, last_norm), branch_scale), fed.router};
  }
  const auto [stream, h] = residual(before, attended, second_norm, branch_scale);
  const BlockExperts::Result fed = feed(h, again(stream, second_norm), context);
  return {kernels::add(stream, normed(fed.y, last_norm), branch_scale), fed.router};
}

BlockExperts::Result DecoderLayer::feed(const at::Tensor& x, const kernels::Again& recipe,
                                        const LayerContext& context) const {
  const kernels::Wanted wanted = wanted_before(mlp_post_norm, context);
  if (experts) return experts->forward(x, recipe, context, wanted);
  return {mlp.forward(x, recipe, context, wanted), {}};
}

std::vector<kernels::Projection*> DecoderLayer::projections() {
  std::vector<kernels::Projection*> all;
  for (kernels::Projection& p : attention.in) all.push_back(&p);
  all.push_back(&attention.out);
  BlockMlp& dense = experts ? experts->shared : mlp;
  for (kernels::Projection& p : dense.in) all.push_back(&p);
  if (dense.out.weight != nullptr) all.push_back(&dense.out);
  return all;
}

at::Tensor BlockMlp::forward(const at::Tensor& x, const kernels::Again& again, const LayerContext& context,
                             kernels::Wanted wanted) const {
  const int64_t tokens = tile_tokens(x.size(0), context);
  if (tokens >= x.size(0)) return whole(x, again, context, wanted);
  const memory::RowTiles tiles{tokens, out.out(), context.compute, wanted, again, parameters(context)};
  return memory::by_row_tiles(
      x, tiles, [own = *this, context](const at::Tensor& part, int64_t first, kernels::Wanted of_part) {
        const kernels::IndependentRows independent(context.as_generated);
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
  if (context.cached != nullptr || kernels::path() == kernels::Path::plain) return tokens;
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

at::Tensor BlockAttention::forward(const at::Tensor& x, const kernels::Again& again,
                                   const LayerContext& context, kernels::Wanted wanted) const {
  std::vector<at::Tensor> qkv = kernels::linear(x, context.placed(in), context.compute, again);
  if (in.size() == 1) qkv = split(qkv[0]);
  at::Tensor q = heads_of(qkv[0], heads, context.placed(q_norm)),
             k = heads_of(qkv[1], kv_heads, context.placed(k_norm));
  if (rope >= 0) {
    const RopeTables& tables = context.ropes[static_cast<size_t>(rope)];
    std::tie(q, k) = kernels::rope(q, k, tables.cos, tables.sin, rope_layout);
  }
  const at::Tensor attended = attend(q, k, heads_of(qkv[2], kv_heads, {}), context);
  const at::Tensor y = kernels::linear(attended.view({x.size(0), heads * head_dim}), context.placed(out),
                                       context.compute, {}, wanted)[0];
  return kernels::dropout(y, context.dropout(out_dropout, DropPlace::attention_out));
}

std::vector<at::Tensor> BlockAttention::split(const at::Tensor& qkv) const {
  if (!by_head)
    return kernels::split_columns(qkv, {heads * head_dim, kv_heads * head_dim, kv_heads * head_dim});
  return kernels::split_columns(qkv.view({-1, 3 * head_dim}), {head_dim, head_dim, head_dim});
}

// x: [tokens, count * head_dim] or [tokens * count, head_dim]
at::Tensor BlockAttention::heads_of(const at::Tensor& x, int64_t count, const Norm& norm) const {
  if (whole_norms) return normed(x, norm).view({-1, count, head_dim});
  return normed(x.view({-1, count, head_dim}), norm);
}

at::Tensor BlockAttention::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const LayerContext& context) const {
  if (context.cached != nullptr)
    return kernels::cached_attention(q, k, v, *context.cached, context.layer, options);
  kernels::AttentionOptions chosen = options;
  chosen.plugin = context.attention;
  chosen.dropout = context.dropout(weight_dropout, DropPlace::attention_weights);
  return kernels::attention(q, k, v, context.segments, chosen);
}

// All dense products that read x are in one op.
BlockExperts::Result BlockExperts::forward(const at::Tensor& x, const kernels::Again& again,
                                           const LayerContext& context, kernels::Wanted wanted) const {
  std::vector<kernels::Projection> in = {router};
  if (shared_gate.weight != nullptr) {
    in.push_back(shared_gate);
    in.insert(in.end(), shared.in.begin(), shared.in.end());
  }
  const std::vector<at::Tensor> read = kernels::linear(x, context.placed(in), context.compute, again);
  const kernels::Routing routing = kernels::route(read[0], chosen, normalised);
  at::Tensor y =
      kernels::experts(x, routing, context.placed(weights), activation, context.compute, again, wanted);
  if (shared_gate.weight != nullptr) {
    const std::vector<at::Tensor> wide(read.begin() + 2, read.end());
    y = kernels::add_gated(y, read[1], shared.from_wide(wide, context));
  }
  return {y, read[0]};
}

}  // namespace trl::model
