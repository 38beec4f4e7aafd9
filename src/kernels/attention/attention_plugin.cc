// Loads a plug-in and reads its table.
#include "kernels/attention/attention_plugin.h"

#include <dlfcn.h>

#include "base/files/files.h"
#include "base/text/utf8.h"
#include "kernels/op.h"

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
  if (table_ == nullptr) {
    refuse(fmt::format("has no table of version {}, which this build uses", TRL_KERNEL_ABI_VERSION));
  }
  if (table_->abi_version != TRL_KERNEL_ABI_VERSION) {
    refuse(fmt::format("has version {} of trl/kernel.h, this build uses version {}", table_->abi_version,
                       TRL_KERNEL_ABI_VERSION));
  }
  if (table_->struct_size < sizeof(trl_kernel_attention_v1)) {
    refuse(fmt::format("has a table of {} bytes (struct_size), version {} has {}", table_->struct_size,
                       TRL_KERNEL_ABI_VERSION, sizeof(trl_kernel_attention_v1)));
  }
  for (const auto& [member, given] : {std::pair("name", table_->name != nullptr && table_->name[0] != '\0'),
                                      std::pair("forward", table_->forward != nullptr),
                                      std::pair("backward", table_->backward != nullptr)}) {
    if (!given) refuse(fmt::format("has a table without {}", member));
  }
  if (types_of(table_->dtypes).empty()) {
    refuse(fmt::format("does not name a known type (dtypes is {})", table_->dtypes));
  }
  if (table_->max_head_dim < 0) {
    refuse(fmt::format("has a max_head_dim of {}; accepted: 1 or more, or 0 for any", table_->max_head_dim));
  }
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
  if (needs.window > 0 && (table_->flags & TRL_KERNEL_WINDOW) == 0) {
    refuse(fmt::format("has no sliding window (TRL_KERNEL_WINDOW), the model has one of {}", needs.window));
  }
  if (needs.dropout > 0) {
    refuse(fmt::format(
        "cannot drop weights, and config.json has a dropout of {} in attention: set it to 0 there",
        needs.dropout));
  }
}

}  // namespace trl::kernels
