#include "config/recompute.h"

#include <algorithm>

#include "base/error.h"
#include "config/sizes_and_paths.h"
#include "config/training/named_values.h"

namespace trl::config {

namespace {

const std::vector<std::string_view> kForms = {"layers", "selective", "products"};

// Returns the newer name if both are given.
std::string_view kwargs_key(const Config& config) {
  return config.get("activation_checkpointing_kwargs") != "null" ? "activation_checkpointing_kwargs"
                                                                 : "gradient_checkpointing_kwargs";
}

// The keys of torch's checkpoint function.
struct TorchKeys {
  bool use_reentrant = false, preserve_rng_state = true, debug = false, early_stop = true;
  bool checks_determinism = true;

  explicit TorchKeys(NamedValues& values) {
    values.flag("use_reentrant", use_reentrant);
    values.flag("preserve_rng_state", preserve_rng_state);
    values.flag("debug", debug);
    values.flag("early_stop", early_stop);
    checks_determinism = values.word("determinism_check", {"default", "none"}).value_or(0) == 0;
  }
};

struct Entries {
  std::string_view key;
  TorchKeys torch;
  bool selective = false, offload = false;
  int64_t every_n_layers = 1;
  std::optional<size_t> form;

  explicit Entries(const Config& config) : Entries(kwargs_key(config), config) {}

 private:
  Entries(std::string_view name, const Config& config)
      : Entries(name, NamedValues(name, "torch's checkpoint function", config.get_pairs(name))) {}
  Entries(std::string_view name, NamedValues values) : key(name), torch(values) {
    values.flag("selective", selective);
    values.flag("offload", offload);
    values.integer("every_n_layers", ">= 1", every_n_layers);
    form = values.word("recompute", kForms);
    if (values.given("context_fn")) {
      fail_key(key,
               "{}: context_fn is refused, because it is a function of Python: give selective: true, or "
               "recompute: selective or products, to keep a part of each layer",
               key);
    }
  }
};

Recomputed form_of(const Config& config, const Entries& entries) {
  std::optional<size_t> form = entries.form;
  std::string_view said = entries.key;
  if (const std::optional<std::string> name = config.get_text("recompute")) {
    const auto own = static_cast<size_t>(std::ranges::find(kForms, *name) - kForms.begin());
    if (form && *form != own) {
      fail_key("recompute", "recompute: {} contradicts {}: {{recompute: {}}}: give one of them", *name,
               entries.key, kForms[*form]);
    }
    form = own;
    said = "recompute";
  }
  if (entries.selective && form && kForms[*form] != "selective") {
    fail_key(said,
             "recompute: {} contradicts {}: {{selective: true}}, which keeps the outputs of attention and "
             "nothing else: give one of them",
             kForms[*form], entries.key);
  }
  if (entries.selective) return Recomputed::selective;
  return form ? static_cast<Recomputed>(*form + 1) : Recomputed::layers;
}

// Returns the key that asks for something that only recomputing has.
std::string asked(const Config& config, const Entries& entries) {
  if (config.get_text("recompute")) return "recompute: " + config.get("recompute");
  const auto entry = [&](std::string_view text) { return fmt::format("{}: {{{}}}", entries.key, text); };
  if (entries.form) return entry(fmt::format("recompute: {}", kForms[*entries.form]));
  if (entries.selective) return entry("selective: true");
  if (entries.offload) return entry("offload: true");
  if (entries.every_n_layers > 1) return entry(fmt::format("every_n_layers: {}", entries.every_n_layers));
  return {};
}

}  // namespace

Recompute recompute(const Config& config) {
  const Entries entries(config);
  const std::optional<bool> newer = config.get_optional_bool("activation_checkpointing");
  Recompute out{form_of(config, entries), entries.every_n_layers, entries.offload};
  if (!newer.value_or(config.get_bool("gradient_checkpointing"))) {
    if (const std::string what = asked(config, entries); !what.empty()) {
      const std::string_view switched = newer ? "activation_checkpointing" : "gradient_checkpointing";
      fail_key(switched, "{} needs {}: true, and it is false: give true, or leave {} out", what, switched,
               what.substr(0, what.find(':')));
    }
    return {};
  }
  const bool reentrant =
      config.get_optional_bool("gradient_checkpointing_use_reentrant").value_or(entries.torch.use_reentrant);
  if (reentrant && out.form != Recomputed::layers) {
    fail_key(config.get_text("recompute") ? std::string_view("recompute") : entries.key,
             "{} keeps a part of each layer, and use_reentrant: true computes whole layers again: leave "
             "use_reentrant out, or give false",
             asked(config, entries));
  }
  return out;
}

std::vector<std::string> recompute_notes(const Config& config) {
  const Entries entries(config);
  std::vector<std::string> notes;
  const auto note = [&](bool given, std::string_view entry, std::string_view why) {
    if (given) notes.push_back(fmt::format("{}: {}: {}", entries.key, entry, why));
  };
  note(!entries.torch.preserve_rng_state, "preserve_rng_state: false",
       "it changes nothing: dropout is drawn from the step and the layer, so it is the same both times");
  note(entries.torch.debug, "debug: true",
       "it changes nothing: it reports where a second run differs, and here it cannot differ");
  note(!entries.torch.checks_determinism, "determinism_check: none",
       "it changes nothing: the second run has the bits of the first without a check");
  note(!entries.torch.early_stop, "early_stop: false",
       "it changes nothing: what no gradient needs is not computed again");
  if (!activation_offload(config) && !config.get_text("memory_budget")) {
    for (const char* key : {"activation_offloading_min_bytes", "activation_offloading_zstd"})
      if (config.is_set(key))
        notes.push_back(fmt::format("{}: it has an effect only with activation_offloading: true", key));
  }
  return notes;
}

std::optional<ActivationOffload> activation_offload(const Config& config) {
  const bool all = config.get_bool("activation_offloading");
  if (!all && !recompute(config).offload) return std::nullopt;
  ActivationOffload out{.all = all,
                        .min_bytes = config.get_int("activation_offloading_min_bytes"),
                        .zstd = config.get_bool("activation_offloading_zstd")};
  out.directory = directory(config, "offload_dir", config.get_text("output_dir").value_or("trainer_output"));
  return out;
}

}  // namespace trl::config
