// Calls a plug-in, with memory of ours.
#include "base/text/utf8.h"
#include "kernels/attention/attention_plugin.h"
#include "kernels/op.h"
#include "tensor/threads/openmp_threads.h"

namespace trl::kernels {

namespace {

// Bytes; more is a mistake in a calculation, not a request.
constexpr int64_t kMostWorkspace = int64_t{1} << 40;
// Bytes of known content before and after a workspace, which show that a kernel wrote there before the heap
// is damaged.
constexpr int64_t kGuard = 4096;
constexpr unsigned char kGuardByte = 0xa5;

bool is_guard(const unsigned char* bytes) {
  return std::all_of(bytes, bytes + kGuard, [](unsigned char b) { return b == kGuardByte; });
}

trl_kernel_input input(const at::Tensor& x) { return {x.data_ptr(), x.stride(0), x.stride(1)}; }
trl_kernel_output output(const at::Tensor& x) { return {x.data_ptr(), x.stride(0), x.stride(1)}; }

}  // namespace

// The batch of one call, and its description for the plug-in.
class AttentionPlugin::Call {
 public:
  Call(const AttentionPlugin& plugin, const at::Tensor& q, const at::Tensor& k, const Segments& segments,
       const AttentionOptions& options, int32_t pass)
      : plugin_(plugin), pass_(pass == TRL_KERNEL_PASS_FORWARD ? "forward" : "backward") {
    base::poll();
    batch_.struct_size = sizeof batch_;
    batch_.dtype = kernel_dtype(q.scalar_type());
    batch_.tokens = q.size(0);
    batch_.documents = static_cast<int64_t>(segments.cu_seqlens.size()) - 1;
    batch_.cu_seqlens = segments.cu_seqlens.data();
    if (!segments.prefix.empty()) {
      if ((plugin.table().flags & TRL_KERNEL_PREFIX) == 0)
        plugin.refuse("does not take documents that share a prefix (TRL_KERNEL_PREFIX)");
      for (const int32_t p : segments.prefix) {
        if (p >= 0 && segments.prefix[static_cast<size_t>(p)] >= 0)
          plugin.refuse("does not take a prefix that has one itself");
      }
      batch_.prefix = segments.prefix.data();
    }
    if (options.softcap > 0) plugin.refuse("cannot cap scores, as this model does");
    if (options.dropout.rate > 0) plugin.refuse("cannot drop weights, as training this model does");
    batch_.max_length = segments.max_length;
    batch_.heads = q.size(1);
    batch_.kv_heads = k.size(1);
    batch_.head_dim = q.size(2);
    batch_.window = options.window;
    batch_.scale = options.scale;
    batch_.threads = tensor::threads();
    take_workspace(pass);
    batch_.message = message_;
    batch_.message_size = sizeof message_;
  }

  template <typename Function, typename Arrays>
  void run(Function function, const Arrays& arrays) {
    const tensor::OpenMpThreads of_plugin(batch_.threads);  // the plug-in may have OpenMP regions
    const int32_t code = function(&batch_, &arrays);
    check_guards();
    if (code == 0) return;
    message_[sizeof message_ - 1] = '\0';
    throw Error(Status::callback,
                fmt::format("{}: {} of plug-in {} ({}) failed with {}: {}", kAttentionKey, pass_,
                            plugin_.path(), plugin_.name(), code,
                            message_[0] != '\0' ? base::one_line(message_) : "it gave no reason"),
                kAttentionKey, code);
  }

 private:
  void take_workspace(int32_t pass) {
    if (plugin_.table().workspace == nullptr) return;
    const int64_t bytes = plugin_.table().workspace(&batch_, pass);
    if (bytes < 0 || bytes > kMostWorkspace) {
      plugin_.refuse(fmt::format("asks for {} bytes of workspace in {}; accepted: 0 to {}", bytes, pass_,
                                 kMostWorkspace));
    }
    if (bytes == 0) return;
    try {
      workspace_ = tensor::empty({kGuard + bytes + kGuard}, at::kByte, MemoryKind::workspace);
    } catch (const Error& error) {
      throw Error(error.status(),
                  fmt::format("{}: plug-in {} asks for {} bytes of workspace in {}: {}", kAttentionKey,
                              plugin_.path(), bytes, pass_, error.message()),
                  kAttentionKey);
    }
    batch_.workspace = before() + kGuard;
    batch_.workspace_size = bytes;
    std::memset(before(), kGuardByte, kGuard);
    std::memset(behind(), kGuardByte, kGuard);
  }

  unsigned char* before() const { return workspace_.data_ptr<uint8_t>(); }
  unsigned char* behind() const { return before() + kGuard + workspace_.numel() - 2 * kGuard; }

  void check_guards() const {
    if (!workspace_.defined()) return;
    for (const auto& [where, guard] : {std::pair("before", before()), std::pair("past", behind())}) {
      if (is_guard(guard)) continue;
      plugin_.refuse(fmt::format("writes {} its workspace in {}, which is the {} bytes that it asked for",
                                 where, pass_, workspace_.numel() - 2 * kGuard));
    }
  }

  const AttentionPlugin& plugin_;
  const char* const pass_;
  trl_kernel_batch batch_{};
  at::Tensor workspace_;
  char message_[512] = "";
};

void AttentionPlugin::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const Segments& segments, const AttentionOptions& options, at::Tensor& out,
                              at::Tensor& lse) const {
  const tensor::Timed timed(tensor::Part::attention);
  Call call(*this, q, k, segments, options, TRL_KERNEL_PASS_FORWARD);
  call.run(table_->forward, trl_kernel_attention_forward{input(q), input(k), input(v), output(out),
                                                         lse.data_ptr<float>(), lse.stride(0)});
}

void AttentionPlugin::backward(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                               const Segments& segments, const AttentionOptions& options,
                               Gradients& gradients) const {
  const tensor::Timed timed(tensor::Part::attention);
  Call call(*this, q, k, segments, options, TRL_KERNEL_PASS_BACKWARD);
  call.run(table_->backward,
           trl_kernel_attention_backward{input(d_out), input(q), input(k), input(v), input(out),
                                         lse.data_ptr<float>(), lse.stride(0), output(gradients.dq),
                                         output(gradients.dk), output(gradients.dv)});
}

}  // namespace trl::kernels
