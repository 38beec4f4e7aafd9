// Loads a plug-in, reads its table and calls it with memory of ours; the differentiable op around it.
#include "kernels/attention/attention_plugin.h"

#include <dlfcn.h>

#include "base/files/files.h"
#include "base/text/utf8.h"
#include "kernels/kept_outputs.h"
#include "kernels/op.h"
#include "tensor/threads/openmp_threads.h"

namespace trl::kernels {

namespace {

constexpr const char* kInstead = "; give sdpa for the built-in attention";

std::string types_of(uint32_t dtypes) {
  std::string names;
  if ((dtypes & TRL_KERNEL_FLOAT32) != 0) names = "float32";
  if ((dtypes & TRL_KERNEL_BFLOAT16) != 0) names += names.empty() ? "bfloat16" : " and bfloat16";
  return names;
}

void* open_library(const std::string& path) {
  // The loader would search for a name without a slash in the system's library directories.
  const std::string place = path.find('/') == std::string::npos ? "./" + path : path;
  if (void* const library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const char* const reason = ::dlerror();
  throw Error(base::file_exists(path) ? Status::unsupported : Status::not_found,
              fmt::format("{}: plug-in {} cannot be loaded: {}{}", kAttentionKey, path,
                          reason != nullptr ? reason : "no reason was given", kInstead),
              kAttentionKey);
}

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

uint32_t kernel_dtype(at::ScalarType type) {
  return type_of(type) == Type::f32 ? TRL_KERNEL_FLOAT32 : TRL_KERNEL_BFLOAT16;
}

void AttentionPlugin::refuse(const std::string& why) const {
  throw Error(Status::unsupported, fmt::format("{}: plug-in {} {}{}", kAttentionKey, path_, why, kInstead),
              kAttentionKey);
}

AttentionPlugin::AttentionPlugin(const std::string& path)
    : path_(path), library_(open_library(path), ::dlclose) {
  void* const symbol = ::dlsym(library_.get(), "trl_kernel_attention");
  if (symbol == nullptr) refuse("does not export the function trl_kernel_attention (trl/kernel.h)");
  table_ = reinterpret_cast<decltype(&trl_kernel_attention)>(symbol)(TRL_KERNEL_ABI_VERSION);
  check_table();
  name_ = base::one_line(table_->name);
}

AttentionPlugin::~AttentionPlugin() = default;

void AttentionPlugin::check_table() const {
  if (table_ == nullptr)
    refuse(fmt::format("has no table of version {}, which this build uses", TRL_KERNEL_ABI_VERSION));
  if (table_->abi_version != TRL_KERNEL_ABI_VERSION) {
    refuse(fmt::format("has version {} of trl/kernel.h, this build uses version {}", table_->abi_version,
                       TRL_KERNEL_ABI_VERSION));
  }
  if (table_->struct_size < sizeof(trl_kernel_attention_v1)) {
    refuse(fmt::format("has a table of {} bytes (struct_size), version {} has {}", table_->struct_size,
                       TRL_KERNEL_ABI_VERSION, sizeof(trl_kernel_attention_v1)));
  }
  for (const auto& [member, given] :
       {std::pair("name", table_->name != nullptr && table_->name[0] != '\0'),
        std::pair("forward", table_->forward != nullptr), std::pair("backward", table_->backward != nullptr)})
    if (!given) refuse(fmt::format("has a table without {}", member));
  if (types_of(table_->dtypes).empty())
    refuse(fmt::format("does not name a known type (dtypes is {})", table_->dtypes));
  if (table_->max_head_dim < 0)
    refuse(fmt::format("has a max_head_dim of {}; accepted: 1 or more, or 0 for any", table_->max_head_dim));
}

void AttentionPlugin::require(const AttentionNeeds& needs) const {
  if ((table_->dtypes & kernel_dtype(needs.type)) == 0) {
    refuse(fmt::format("computes only in {}, and this run in {} (bf16, dtype)", types_of(table_->dtypes),
                       types_of(kernel_dtype(needs.type))));
  }
  if (table_->max_head_dim > 0 && needs.head_dim > table_->max_head_dim) {
    refuse(fmt::format("takes a head_dim of at most {}, that of the model is {}", table_->max_head_dim,
                       needs.head_dim));
  }
  if (needs.window > 0 && (table_->flags & TRL_KERNEL_WINDOW) == 0)
    refuse(fmt::format("has no sliding window (TRL_KERNEL_WINDOW), the model has one of {}", needs.window));
  if (needs.dropout > 0) {
    refuse(fmt::format(
        "cannot drop weights, and config.json has a dropout of {} in attention: set it to 0 there",
        needs.dropout));
  }
}

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
      for (const int32_t p : segments.prefix)
        if (p >= 0 && segments.prefix[static_cast<size_t>(p)] >= 0)
          plugin.refuse("does not take a prefix that has one itself");
      batch_.prefix = segments.prefix.data();
    }
    if (!segments.padding.empty()) plugin.refuse("does not take padding, which no token sees");
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
      throw error.with(fmt::format("{}: plug-in {} asks for {} bytes of workspace in {}: {}", kAttentionKey,
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

at::Tensor plugin_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const SegmentsPtr& segments, const AttentionOptions& options) {
  if (records(q) || records(k) || records(v)) return PluginFunction::apply(q, k, v, segments, options);
  return plugin_outputs(q, k, v, *segments, options)[0];
}

}  // namespace trl::kernels
