#include "run/conversion.h"

#include "adapter/config_file.h"
#include "base/error.h"
#include "config/model_dtype.h"
#include "io/safetensors.h"

namespace trl::run {

namespace {

// Keys that decide how a model is opened, and with which adapter.
constexpr std::string_view kOpening[] = {"adapter_name_or_path", "dtype",
                                         "load_in_4bit",         "load_in_8bit",
                                         "bnb_4bit_quant_type",  "use_bnb_nested_quant"};

void refuse_opening(const config::Config& options) {
  for (const std::string_view key : kOpening) {
    if (options.is_set(key))
      fail_key(key, "{}: it is only for save.kind: merged, which opens the model", key);
  }
}

// Settles dtype, the type in which weights are merged and then written.
void settle_dtype(const config::Config& options, Conversion& conversion) {
  const bool given = options.is_set("dtype") || options.is_set("model_init_kwargs");
  if (given) conversion.dtype = config::model_dtype(options);
  const std::string& dtype = conversion.dtype;
  const std::string& type = conversion.type;
  const char* const own = dtype == "float32" ? "f32" : dtype == "bfloat16" ? "bf16" : nullptr;
  if (own == nullptr) return;
  if (type != "auto" && type != own)
    fail_key("convert.type", "convert.type: {} contradicts dtype: {}: give one of them", type, dtype);
  conversion.type = own;
}

void merge_options(const std::string& path, const config::Config& options, Conversion& conversion) {
  const std::optional<std::string> base = options.get_text("convert.base");
  const std::optional<std::string> given = options.get_text("adapter_name_or_path");
  conversion.merged = true;
  settle_dtype(options, conversion);
  if (!adapter::is_adapter(path)) {
    if (!given)
      fail_key("save.kind",
               "save.kind: merged needs an adapter, and {} is a model: give the adapter's directory, or "
               "adapter_name_or_path",
               path);
    conversion.model = path;
    conversion.adapter = *given;
    return;
  }
  if (given)
    fail_key("adapter_name_or_path", "adapter_name_or_path: {} is an adapter itself: give one of them", path);
  conversion.adapter = path;
  conversion.model = base ? *base : adapter::base_model(path, "convert.base");
}

void adapter_options(const std::string& path, const config::Config& options, Conversion& conversion) {
  const std::optional<std::string> base = options.get_text("convert.base");
  conversion.adapter = path;
  if (base) conversion.model = *base;
  if (!base && conversion.to_gguf()) conversion.model = adapter::base_model(path, "convert.base");
}

}  // namespace

Conversion conversion_of(const std::string& path, const std::string& target, const config::Config& options) {
  Conversion conversion;
  conversion.target = target;
  conversion.type = options.get("convert.type");
  const std::string kind = options.get("save.kind");
  const bool is_adapter = adapter::is_adapter(path);
  if (kind != "model" && kind != "merged")
    fail_key("save.kind", "save.kind: {}: merged is the kind that a conversion may have", kind);
  if (!is_adapter && options.get_text("convert.base"))
    fail_key("convert.base", "convert.base: it is for an adapter, and {} is not one", path);
  if (kind != "merged") refuse_opening(options);
  if (kind == "merged")
    merge_options(path, options, conversion);
  else if (is_adapter)
    adapter_options(path, options, conversion);
  else
    conversion.model = path;
  if (!conversion.model.empty()) conversion.model = io::model_path(conversion.model);
  return conversion;
}

}  // namespace trl::run
