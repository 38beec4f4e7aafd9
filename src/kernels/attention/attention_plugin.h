// An attention kernel that a run loads from a shared library (include/trl/kernel.h).
#pragma once
#include <ATen/ATen.h>
#include <memory>
#include <string>

#include "kernels/kernels.h"
#include "trl/kernel.h"

namespace trl::kernels {

// The key that every error names.
inline constexpr const char* kAttentionKey = "attn_implementation";

uint32_t kernel_dtype(at::ScalarType type);  // trl_kernel_batch.dtype

// The requirements of a model for its attention.
struct AttentionNeeds {
  at::ScalarType type = at::kFloat;  // the type of the computation
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // window of the layers that have one; 0: none has
  double dropout = 0;  // rate of the weights' dropout, in training
};

class AttentionPlugin {
 public:
  // Throws Error(not_found) for a missing file; Error(unsupported) for a file that is not a shared library,
  // lacks the function, or has another version.
  explicit AttentionPlugin(const std::string& path);
  ~AttentionPlugin();
  AttentionPlugin(const AttentionPlugin&) = delete;
  AttentionPlugin& operator=(const AttentionPlugin&) = delete;

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }  // always one line, whatever the plug-in says
  const trl_kernel_attention_v1& table() const { return *table_; }

  // Throws Error(unsupported) unless the plug-in declares support.
  void require(const AttentionNeeds& needs) const;
  // Throws Error(unsupported): "attn_implementation: plug-in <path> <why>; give sdpa ..."
  [[noreturn]] void refuse(const std::string& why) const;
  // The plug-in's calls; the last arguments are written. Throw Error(callback) with the plug-in's message,
  // and Error(unsupported) if it wrote outside its workspace.
  void forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Segments& segments,
               const AttentionOptions& options, at::Tensor& out, at::Tensor& lse) const;
  struct Gradients {
    at::Tensor dq, dk, dv;
  };
  void backward(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const at::Tensor& out, const at::Tensor& lse, const Segments& segments,
                const AttentionOptions& options, Gradients& gradients) const;

 private:
  class Call;
  void check_table() const;

  std::string path_, name_;
  std::unique_ptr<void, int (*)(void*)> library_;
  const trl_kernel_attention_v1* table_ = nullptr;
};

// Loads a plug-in, asks whether it supports the needs, and compares its results with the built-in attention
// on small batches. agreement: the largest difference, relative to the largest value. Throws
// Error(unsupported) with the reason.
AttentionPluginPtr open_attention_plugin(const std::string& path, const AttentionNeeds& needs,
                                         double* agreement);

// kernels::attention through a plug-in; the tensors are checked.
at::Tensor plugin_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const SegmentsPtr& segments, const AttentionOptions& options);

}  // namespace trl::kernels
