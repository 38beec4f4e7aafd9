// engine::Attention over kernels/, and how the log names the attention and the kernels of a run.
#pragma once
#include <string>

#include "engine/trainer.h"
#include "kernels/kernels.h"

namespace trl::entry {

// The plug-in of a run, opened before its rows and weights are read.
class AttentionObject final : public engine::Attention {
 public:
  explicit AttentionObject(const engine::AttentionSpec& spec);
  void release() noexcept override { delete this; }
  const kernels::AttentionPluginPtr& plugin() const { return plugin_; }
  const std::string& description() const { return description_; }  // for the log

 private:
  ~AttentionObject() = default;
  kernels::AttentionPluginPtr plugin_;
  std::string description_;
};

// The description of the built-in one, or of the plain path.
std::string built_in_attention(bool fused = true);

// Returns, for the log, why a run uses libtorch's operators instead of the fused kernels; empty: it uses the
// kernels.
std::string why_plain(bool fused, at::Device device);

}  // namespace trl::entry
