// An attention kernel that a run brings along as a shared library (include/trl/kernel.h).
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "kernels/kernels.h"
#include "trl/kernel.h"

namespace trl::kernels {

inline constexpr const char* kAttentionKey = "attn_implementation";  // at fault in every error

uint32_t kernel_dtype(at::ScalarType type);  // trl_kernel_batch.dtype

// What a model asks of its attention.
struct AttentionNeeds {
  at::ScalarType type = at::kFloat;  // computed in
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // of its layers that have one; 0: none has
  double dropout = 0;  // of its weights, in training
};

class AttentionPlugin {
 public:
  // Throws Error(not_found) for a missing file; Error(unsupported) for what is not a shared library, lacks
  // the function, or has another version.
  explicit AttentionPlugin(const std::string& path);
  ~AttentionPlugin();
  AttentionPlugin(const AttentionPlugin&) = delete;
  AttentionPlugin& operator=(const AttentionPlugin&) = delete;

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }  // one line, whatever the plug-in says
  const trl_kernel_attention_v1& table() const { return *table_; }

  // Throws Error(unsupported) where the plug-in does not say that it can.
  void require(const AttentionNeeds& needs) const;
  // Throws Error(unsupported): "attn_implementation: plug-in <path> <why>; give sdpa ..."
  [[noreturn]] void refuse(const std::string& why) const;
  // The calls themselves: the last arguments are written. Throw Error(callback) with what the plug-in says,
  // and Error(unsupported) when it wrote beside its workspace.
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

// Loads a plug-in, asks whether it can what is needed, and compares what it computes with the built-in
// attention on small batches. agreement: the largest difference, of the largest value. Throws
// Error(unsupported) with the reason.
AttentionPluginPtr open_attention_plugin(const std::string& path, const AttentionNeeds& needs,
                                         double* agreement);

// One small batch of it.
struct AttentionCase {
  std::vector<int64_t> lengths;
  int64_t heads, kv_heads, window;
  std::vector<int32_t> prefix = {};  // Segments::prefix
};
double compare_with_built_in(const AttentionPlugin& plugin, at::ScalarType type, int64_t head_dim,
                             const AttentionCase& c);

// kernels::attention by a plug-in; the tensors are checked.
at::Tensor plugin_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const SegmentsPtr& segments, const AttentionOptions& options);

}  // namespace trl::kernels
