#include "entry/attention_object.h"

#include <algorithm>

#include "config/model_options.h"
#include "entry/trained_parts.h"
#include "kernels/attention/attention_plugin.h"
#include "kernels/cpu/cpu_kernels.h"
#include "model/model.h"

namespace trl::entry {

namespace {

kernels::AttentionNeeds needs_of(const model::Outline& outline, bool bf16) {
  const model::ModelConfig& c = outline.config;
  const bool slides = std::ranges::find(c.sliding_layers, true) != c.sliding_layers.end();
  return {model::Model::compute(outline.dtype, bf16 ? at::kBFloat16 : at::kFloat),
          c.num_attention_heads,
          c.num_key_value_heads,
          c.head_dim,
          slides ? c.sliding_window : 0,
          c.dropout.attention};
}

}  // namespace

AttentionObject::AttentionObject(const engine::AttentionSpec& spec) {
  const auto& [config, arguments] = *spec.options;
  const model::Outline outline =
      model::Model::outline(spec.model, config::model_dtype(config), head_of(config));
  double agreement = 0;
  plugin_ = kernels::open_attention_plugin(arguments.attention.plugin, needs_of(outline, arguments.bf16),
                                           &agreement);
  description_ = fmt::format("{}, which agrees with the built-in attention to {:.1e} of the largest value",
                             plugin_->name(), agreement);
}

std::string built_in_attention(bool fused) {
  return fused ? fmt::format("built-in flash attention ({})", kernels::cpu().name)
               : std::string("plain attention (fused_kernels: off)");
}

std::string why_plain(bool fused, at::Device device) {
  if (!fused) return "fused_kernels is off";
  return device.is_cpu()
             ? ""
             : fmt::format("the model is on {}, and the fused kernels are the CPU's", device.str());
}

}  // namespace trl::entry
