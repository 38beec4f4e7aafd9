// Loading a plug-in, and calling it with memory of ours.
#include "kernels/attention_plugin.h"

#include <dlfcn.h>

#include "base/files.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

constexpr const char* kKey = "attn_implementation";
constexpr const char* kInstead = "; give sdpa for the built-in attention";

uint32_t dtype_of(at::ScalarType type) {
  return type_of(type) == Type::f32 ? TRL_KERNEL_FLOAT32 : TRL_KERNEL_BFLOAT16;
}

trl_kernel_input input(const at::Tensor& x) { return {x.data_ptr(), x.stride(0), x.stride(1)}; }
trl_kernel_output output(const at::Tensor& x) { return {x.data_ptr(), x.stride(0), x.stride(1)}; }

std::string types_of(uint32_t dtypes) {
  std::string names;
  if ((dtypes & TRL_KERNEL_FLOAT32) != 0) names = "float32";
  if ((dtypes & TRL_KERNEL_BFLOAT16) != 0) names += names.empty() ? "bfloat16" : " and bfloat16";
  return names;
}

void* open_library(const std::string& path) {
  // A name without a slash would be looked for where the system keeps its libraries.
  const std::string place = path.find('/') == std::string::npos ? "./" + path : path;
  if (void* const library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const char* const reason = ::dlerror();
  throw Error(base::file_exists(path) ? Status::unsupported : Status::not_found,
              fmt::format("{}: plug-in {} cannot be loaded: {}{}", kKey, path,
                          reason != nullptr ? reason : "no reason was given", kInstead),
              kKey);
}

}  // namespace

void AttentionPlugin::refuse(const std::string& why) const {
  throw Error(Status::unsupported, fmt::format("{}: plug-in {} {}{}", kKey, path_, why, kInstead), kKey);
}

AttentionPlugin::AttentionPlugin(const std::string& path)
    : path_(path), library_(open_library(path), ::dlclose) {
  void* const symbol = ::dlsym(library_.get(), "trl_kernel_attention");
  if (symbol == nullptr) refuse("has no function trl_kernel_attention (trl/kernel.h)");
  table_ = reinterpret_cast<decltype(&trl_kernel_attention)>(symbol)(TRL_KERNEL_ABI_VERSION);
  check_table();
}

AttentionPlugin::~AttentionPlugin() = default;

void AttentionPlugin::check_table() const {
  if (table_ == nullptr) {
    refuse(fmt::format("has no table of version {}, which this build speaks", TRL_KERNEL_ABI_VERSION));
  }
  if (table_->abi_version != TRL_KERNEL_ABI_VERSION) {
    refuse(fmt::format("has version {} of trl/kernel.h, this build speaks version {}", table_->abi_version,
                       TRL_KERNEL_ABI_VERSION));
  }
  if (table_->struct_size < sizeof(trl_kernel_attention_v1)) {
    refuse(fmt::format("has a table of {} bytes (struct_size), version {} has {}", table_->struct_size,
                       TRL_KERNEL_ABI_VERSION, sizeof(trl_kernel_attention_v1)));
  }
  for (const auto& [member, given] :
       {std::pair("name", table_->name != nullptr), std::pair("forward", table_->forward != nullptr),
        std::pair("backward", table_->backward != nullptr)}) {
    if (!given) refuse(fmt::format("has a table without {}", member));
  }
  if (types_of(table_->dtypes).empty()) {
    refuse(fmt::format("names no type that is known (dtypes is {})", table_->dtypes));
  }
}

void AttentionPlugin::require(const AttentionNeeds& needs) const {
  if ((table_->dtypes & dtype_of(needs.type)) == 0) {
    refuse(fmt::format("computes in {} alone, this run in {} (bf16, dtype)", types_of(table_->dtypes),
                       types_of(dtype_of(needs.type))));
  }
  if (table_->max_head_dim > 0 && needs.head_dim > table_->max_head_dim) {
    refuse(fmt::format("takes a head_dim of at most {}, that of the model is {}", table_->max_head_dim,
                       needs.head_dim));
  }
  if (needs.window > 0 && (table_->flags & TRL_KERNEL_WINDOW) == 0) {
    refuse(fmt::format("has no sliding window (TRL_KERNEL_WINDOW), the model has one of {}", needs.window));
  }
}

// The batch of one call, and what the plug-in says about it.
class AttentionPlugin::Call {
 public:
  Call(const AttentionPlugin& plugin, const at::Tensor& q, const at::Tensor& k, const Segments& segments,
       const AttentionOptions& options, int32_t pass)
      : plugin_(plugin), pass_(pass == TRL_KERNEL_PASS_FORWARD ? "forward" : "backward") {
    batch_.struct_size = sizeof batch_;
    batch_.dtype = dtype_of(q.scalar_type());
    batch_.tokens = q.size(0);
    batch_.documents = static_cast<int64_t>(segments.cu_seqlens.size()) - 1;
    batch_.cu_seqlens = segments.cu_seqlens.data();
    if (!segments.prefix.empty()) {
      if ((plugin.table().flags & TRL_KERNEL_PREFIX) == 0)
        plugin.refuse("takes no documents that share a prefix (TRL_KERNEL_PREFIX)");
      batch_.prefix = segments.prefix.data();
    }
    if (options.softcap > 0) plugin.refuse("cannot cap scores, as this model does");
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
    const int32_t code = function(&batch_, &arrays);
    if (code == 0) return;
    message_[sizeof message_ - 1] = '\0';
    throw Error(Status::callback,
                fmt::format("{}: {} of plug-in {} ({}) failed with {}: {}", kKey, pass_, plugin_.path(),
                            plugin_.table().name, code, message_[0] != '\0' ? message_ : "it says nothing"),
                kKey, code);
  }

 private:
  void take_workspace(int32_t pass) {
    if (plugin_.table().workspace == nullptr) return;
    const int64_t bytes = plugin_.table().workspace(&batch_, pass);
    if (bytes < 0) plugin_.refuse(fmt::format("asks for {} bytes of workspace in {}", bytes, pass_));
    if (bytes == 0) return;
    workspace_ = tensor::empty({bytes}, at::kByte, MemoryKind::workspace);
    batch_.workspace = workspace_.data_ptr();
    batch_.workspace_size = bytes;
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
  Call call(*this, q, k, segments, options, TRL_KERNEL_PASS_FORWARD);
  call.run(table_->forward, trl_kernel_attention_forward{input(q), input(k), input(v), output(out),
                                                         lse.data_ptr<float>(), lse.stride(0)});
}

void AttentionPlugin::backward(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                               const Segments& segments, const AttentionOptions& options,
                               Gradients& gradients) const {
  Call call(*this, q, k, segments, options, TRL_KERNEL_PASS_BACKWARD);
  call.run(table_->backward,
           trl_kernel_attention_backward{input(d_out), input(q), input(k), input(v), input(out),
                                         lse.data_ptr<float>(), lse.stride(0), output(gradients.dq),
                                         output(gradients.dk), output(gradients.dv)});
}

namespace {

struct PluginState {
  SegmentsPtr segments;
  AttentionOptions options;
};

struct PluginFunction : torch::autograd::Function<PluginFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const SegmentsPtr& segments,
                            const AttentionOptions& options) {
    at::Tensor lse = tensor::empty({q.size(1), q.size(0)}, at::kFloat, MemoryKind::activations);
    at::Tensor out = tensor::empty_like(q, MemoryKind::activations);
    options.plugin->forward(q, k, v, *segments, options, out, lse);
    context->save_for_backward({q, k, v, out, lse});
    keep(context, PluginState{segments, options});
    return out;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = context->get_saved_variables();
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
  at::Tensor lse = tensor::empty({q.size(1), q.size(0)}, at::kFloat, MemoryKind::workspace);
  at::Tensor out = tensor::empty_like(q, MemoryKind::activations);
  options.plugin->forward(q, k, v, *segments, options, out, lse);
  return out;
}

}  // namespace trl::kernels
