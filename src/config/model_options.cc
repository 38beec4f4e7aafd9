#include "config/model_options.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/nearest.h"
#include "config/sizes_and_paths.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

constexpr std::string_view kImplementation = "attn_implementation", kKwargs = "model_init_kwargs",
                           kTeacher = "teacher_model_init_kwargs", kDtype = "dtype", kPlugin = "plugin:";

std::string nearest_that_works(const std::string& value, const std::vector<std::string_view>& names) {
  const std::string small = in_small_letters(value);
  if (small.starts_with(kPlugin)) return std::string(kPlugin) + value.substr(kPlugin.size());
  if (value.ends_with(".so")) return std::string(kPlugin) + value;
  const std::string_view near = base::nearest(small, names);
  if (!near.empty() && !near.starts_with(kPlugin)) return std::string(near);
  return small.find("flash") != std::string::npos ? "flash_attention_2" : "sdpa";
}

std::string_view why_not(std::string_view value) {
  if (in_small_letters(value).starts_with(kPlugin)) return "plugin: is written in lower case";
  if (value.ends_with(".so")) return "a file needs plugin: before its name";
  if (value.find('/') != std::string_view::npos) return "no kernel is fetched from a hub";
  return "this build has no attention of that name";
}

// Returns the attention by either key: transformers gets model_init_kwargs in the end, so its entry is the
// same key by another route.
std::string asked_for(const Config& config) {
  std::string name = config.get(kImplementation);
  for (const auto& [entry, value] : config.get_pairs(kKwargs)) {
    if (entry != kImplementation || value == "null") continue;
    check_attention(kKwargs, value);
    if (name != "null" && name != value) {
      fail_key(kKwargs, "{}: {}: {} contradicts {}: {}: give one of them", kKwargs, kImplementation,
               shown(value), kImplementation, shown(name));
    }
    name = value;
  }
  return name == "null" ? std::string() : name;
}

bool names_dtype(std::string_view entry) { return entry == kDtype || entry == "torch_dtype"; }

// Returns the value that the key dtype has for an entry that names it.
std::string dtype_of(std::string_view kwargs, std::string_view entry, const std::string& value) {
  if (value == "null") return "auto";
  const std::string name = fmt::format("{}: {}", kwargs, entry);
  try {
    std::string dtype = canonical_value(*find_option(kDtype), name, value);
    check_support(*find_option(kDtype), name, dtype);
    return dtype;
  } catch (const Error& error) {
    throw error.with(error.message(), kwargs);
  }
}

// Returns the type that the entries of a key ask for, or `dtype`, which they may not contradict if it is
// given.
std::string dtype_in(const Config& config, std::string_view kwargs, std::string dtype, bool given) {
  for (const auto& [entry, value] : config.get_pairs(kwargs)) {
    if (!names_dtype(entry)) continue;
    const std::string asked = dtype_of(kwargs, entry, value);
    if (given && dtype != asked) {
      fail_key(kwargs, "{}: {}: {} contradicts {}: {}: give one of them", kwargs, entry, shown(asked), kDtype,
               shown(dtype));
    }
    dtype = asked;
    given = true;
  }
  return dtype;
}

}  // namespace

std::string model_dtype(const Config& config) {
  return dtype_in(config, kKwargs, config.get(kDtype), config.is_set(kDtype));
}

std::string teacher_dtype(const Config& config) {
  for (const auto& [entry, value] : config.get_pairs(kTeacher)) {
    if (entry != kImplementation) continue;
    check_attention(kTeacher, value);
    if (value.starts_with(kPlugin))
      fail_key(kTeacher, "{}: {}: {} is refused: the teacher has the built-in attention; give sdpa", kTeacher,
               entry, shown(value));
  }
  return dtype_in(config, kTeacher, config.get(kDtype), false);
}

Quantization quantization(const Config& config) {
  const bool four = config.get_bool("load_in_4bit"), eight = config.get_bool("load_in_8bit");
  if (four && eight) {
    fail_key("load_in_8bit",
             "load_in_8bit: load_in_4bit is true as well: weights have one form, so give one of them");
  }
  Quantization out;
  if (eight) out.form = WeightForm::int8;
  if (four) {
    out.form = config.get("bnb_4bit_quant_type") == "fp4" ? WeightForm::fp4 : WeightForm::nf4;
    out.nested = config.get_bool("use_bnb_nested_quant");
  }
  return out;
}

void check_attention(std::string_view key, const std::string& value) {
  const std::vector<std::string_view> names = split_words(find_option(kImplementation)->accepted, '|');
  if (value == "null" || std::ranges::find(names, value) != names.end()) return;
  if (value.starts_with(kPlugin)) {
    if (value.size() > kPlugin.size()) return;
    fail_key(key, "{}: {} does not name a file; give the path of a shared library: plugin:/path/lib.so", key,
             shown(value));
  }
  fail_key(key, "{}: {} is refused: {}; the nearest that works is {}; give {}", key, shown(value),
           why_not(value), shown(nearest_that_works(value, names)),
           accepted_text(*find_option(kImplementation)));
}

void check_init_kwargs(std::string_view key, const std::string& map) {
  if (key != kKwargs && key != kTeacher) return;
  const base::Json entries = base::Json::parse(map);
  for (const auto& [entry, value] : entries.items()) {
    if (names_dtype(entry)) dtype_of(key, entry, as_text(value));
    if (entry == kImplementation) check_attention(key, as_text(value));
  }
}

AttentionArguments attention_arguments(const Config& config) {
  AttentionArguments out;
  out.name = asked_for(config);
  if (!out.name.starts_with(kPlugin)) return out;
  out.plugin = out.name.substr(kPlugin.size());
  refuse_host_path(kImplementation, out.plugin);
  if (!base::file_exists(out.plugin) && !base::is_directory(out.plugin)) {
    throw Error(
        Status::not_found,
        fmt::format(
            "{}: {} does not exist; give the path of a shared library, or sdpa for the built-in attention",
            kImplementation, shown(out.plugin)),
        std::string(kImplementation));
  }
  if (base::is_directory(out.plugin)) {
    fail_key(kImplementation, "{}: {} is a directory; give the path of a shared library", kImplementation,
             shown(out.plugin));
  }
  if (plain_kernels(config)) {
    fail_key(kImplementation,
             "{}: {} contradicts fused_kernels: off, which computes without kernels; give fused_kernels: "
             "auto, or sdpa for the built-in attention",
             kImplementation, shown(out.name));
  }
  return out;
}

bool plain_kernels(const Config& config) { return config.get("fused_kernels") == "off"; }

}  // namespace trl::config
