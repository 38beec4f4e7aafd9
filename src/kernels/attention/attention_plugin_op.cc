// Attention by a plug-in as a differentiable op.
#include "kernels/attention/attention_plugin.h"
#include "kernels/kept_outputs.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

struct PluginState {
  SegmentsPtr segments;
  AttentionOptions options;
};

// The output of the plug-in, and the log of the sum of its weights for each row and head.
tensor_list plugin_outputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Segments& segments, const AttentionOptions& options) {
  return made(Output::attention, "attention", [&] {
    at::Tensor lse = tensor::empty({q.size(1), q.size(0)}, at::kFloat, MemoryKind::activations);
    at::Tensor out = tensor::empty_like(q, MemoryKind::activations);
    options.plugin->forward(q, k, v, segments, options, out, lse);
    return tensor_list{out, lse};
  });
}

struct PluginFunction : torch::autograd::Function<PluginFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const SegmentsPtr& segments,
                            const AttentionOptions& options) {
    const tensor_list made = plugin_outputs(q, k, v, *segments, options);
    keep(context, "attention", {q, k, v, made[0], made[1]});
    keep(context, PluginState{segments, options});
    return made[0];
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = kept(context);
    const auto& state = kept<PluginState>(context);
    AttentionPlugin::Gradients made{tensor::empty_like(saved[0], MemoryKind::activations),
                                    tensor::empty_like(saved[1], MemoryKind::activations),
                                    tensor::empty_like(saved[2], MemoryKind::activations)};
    state.options.plugin->backward(grads[0].contiguous(), saved[0], saved[1], saved[2], saved[3], saved[4],
                                   *state.segments, state.options, made);
    return {made.dq, made.dk, made.dv, {}, {}};
  }
};

}  // namespace

at::Tensor plugin_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const SegmentsPtr& segments, const AttentionOptions& options) {
  if (records(q) || records(k) || records(v)) return PluginFunction::apply(q, k, v, segments, options);
  return plugin_outputs(q, k, v, *segments, options)[0];
}

}  // namespace trl::kernels
