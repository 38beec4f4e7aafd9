// Reads how rows become batches from a Config, with the checks that concern more than one key.
#include "config/dataset/data_arguments.h"

#include "base/error.h"
#include "base/json/json.h"
#include "config/sizes_and_paths.h"
#include "config/table/option_value.h"
#include "config/training_arguments.h"

namespace trl::config {

namespace {

std::vector<std::pair<std::string, std::string>> dataset_columns(const Config& config) {
  constexpr std::string_view kKey = "dataset_columns";
  const auto given = base::Json::parse(config.get(kKey));
  for (const auto& [from, to] : given.items()) {
    if (to.is_structured())
      fail_key(kKey, "{}: {} of {} is not a name; give {{column: new name}}", kKey, shown(to.dump()),
               shown(from));
  }
  std::vector<std::pair<std::string, std::string>> columns = config.get_pairs(kKey);
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto& [from, to] = columns[i];
    if (from.empty() || to.empty() || to == "null") {
      fail_key(kKey, "{}: {} has no new name; give {{column: new name}}, with a space after each colon", kKey,
               shown(from));
    }
    for (size_t j = 0; j < i; ++j) {
      if (columns[j].second == to) {
        fail_key(kKey, "{}: {} and {} would both be renamed to {}", kKey, shown(columns[j].first),
                 shown(from), shown(to));
      }
    }
  }
  return columns;
}

bool skip_prepare_dataset(const Config& config) {
  for (const auto& [name, value] : config.get_pairs("dataset_kwargs")) {
    if (name != "skip_prepare_dataset") continue;
    const std::optional<bool> flag = parse_bool(value);
    if (!flag && value != "null") {
      fail_key("dataset_kwargs", "dataset_kwargs: {}: {} is not accepted; give true or false", name,
               shown(value));
    }
    return flag.value_or(false);
  }
  return false;
}

Sampling sampling(const Config& config) {
  const std::string& name = config.get("train_sampling_strategy");
  if (name == "sequential") return Sampling::sequential;
  return name == "group_by_length" ? Sampling::group_by_length : Sampling::random;
}

Packing packing_strategy(const Config& config) {
  const std::string& name = config.get("packing_strategy");
  if (name == "wrapped") return Packing::wrapped;
  return name == "bfd_split" ? Packing::bfd_split : Packing::bfd;
}

void read_packing(const Config& config, DataArguments& out) {
  const bool packs = config.get_bool("packing");
  const bool packs_eval = config.get_optional_bool("eval_packing").value_or(packs);
  if (packs) out.packing = packing_strategy(config);
  if (packs_eval) out.eval_packing = packing_strategy(config);
  if ((packs || packs_eval) && !out.max_length) {
    fail_key("max_length", "max_length: null is refused with {}: packed rows need a length",
             packs ? "packing" : "eval_packing");
  }
  if ((packs || packs_eval) && out.skip_prepare_dataset) {
    fail_key("dataset_kwargs",
             "dataset_kwargs: skip_prepare_dataset is refused with {}: packing prepares rows",
             packs ? "packing" : "eval_packing");
  }
  const bool asked = config.get_bool("padding_free");
  if (config.method().rows != RowForm::text) return;  // rows are cut one by one, and never padded here
  if (asked && !packs && out.max_length) {
    fail_key("padding_free",
             "padding_free: true without packing does not keep to max_length (it is {}): set max_length to "
             "null, or packing to true",
             *out.max_length);
  }
  out.padding_free = asked || out.packing == Packing::bfd || out.packing == Packing::bfd_split;
}

// Refuses rows that are read only once and would have to pass through the reference first.
void check_streamed_reference(const Config& config) {
  if (!config.has("precompute_ref_log_probs")) return;
  if (!config.get_bool("precompute_ref_log_probs")) return;
  fail_key("precompute_ref_log_probs",
           "precompute_ref_log_probs: true is refused with dataset_streaming: true: it needs all rows before "
           "the first step, and streamed rows are read while training: leave one of them out");
}

// Reads the arguments for streamed rows, which are not kept after they are read, so their lengths are never
// all known.
void read_streaming(const Config& config, DataArguments& out) {
  out.streaming = config.get_bool("dataset_streaming") || config.get_bool("streaming");
  if (!out.streaming) return;
  if (out.sampling == Sampling::group_by_length) {
    fail_key("train_sampling_strategy",
             "train_sampling_strategy: group_by_length is refused with dataset_streaming: all lengths must "
             "be known");
  }
  check_streamed_reference(config);
}

// Reads the window, which changes the rows that share a batch, so it is refused if something else decides
// that.
void read_prefix_window(const Config& config, DataArguments& out) {
  constexpr std::string_view kKey = "share_prefix_window";
  out.share_prefix_window = config.get_optional_int(kKey).value_or(0);
  if (out.share_prefix_window == 0) return;
  const auto refuse = [&](bool applies, std::string_view with, std::string_view why) {
    if (!applies) return;
    fail_key(kKey, "{}: {} is refused with {}, {}: leave one of them out", kKey, out.share_prefix_window,
             with, why);
  };
  refuse(config.get("share_prefix") == "false", "share_prefix: false", "under which no rows share anything");
  refuse(out.packing != Packing::none, "packing", "which decides on the documents of a row");
  refuse(out.streaming, "dataset_streaming", "which takes rows in the order of their files");
  refuse(out.sampling == Sampling::group_by_length, "train_sampling_strategy: group_by_length",
         "which brings rows of one length together");
  refuse(exchanges_completions(config), fmt::format("loss_type: {}", config.method().exchanging_loss),
         "whose KL estimate pairs each prompt with the completion of a neighbouring row");
}

}  // namespace

DataArguments data_arguments(const Config& config) {
  DataArguments out;
  out.row_options = config.values_that_affect(Affects::rows, Affects::rows);
  out.bare_prompts = config.method().bare_prompts;
  if (out.bare_prompts) out.row_options += " bare_prompts";
  out.dataset_text_field = config.get("dataset_text_field");
  out.max_length = config.get_optional_int("max_length");
  out.truncation_keep_end =
      config.get("truncation_mode") == "keep_end" || config.method().rows == RowForm::conversations;
  out.completion_only_loss = config.get_optional_bool("completion_only_loss");
  out.assistant_only_loss = config.get_bool("assistant_only_loss");
  out.shuffle_dataset = config.get_bool("shuffle_dataset");
  out.split_special_tokens = config.get_bool("split_special_tokens");
  out.eos_token = config.get_text("eos_token");
  out.pad_token = config.get_text("pad_token");
  out.chat_template = config.get_text("chat_template");
  out.chat_template_path = config.get_text("chat_template_path");
  for (const std::string_view key : {"chat_template", "chat_template_path"})
    if (config.has(key)) out.template_keys.push_back(key);
  if (out.chat_template && out.chat_template_path)
    fail_key("chat_template", "chat_template and chat_template_path are both set: give one of them");
  out.dataset_columns = dataset_columns(config);
  out.dataset_select_columns = config.get_list("dataset_select_columns");
  out.skip_prepare_dataset = skip_prepare_dataset(config);
  out.dataset_num_proc = config.get_optional_int("dataset_num_proc").value_or(0);
  out.sampling = sampling(config);
  out.dataloader_drop_last = config.get_bool("dataloader_drop_last");
  if (config.get("pad_to_multiple_of") != "auto")
    out.pad_to_multiple_of = config.get_optional_int("pad_to_multiple_of");
  read_packing(config, out);
  read_streaming(config, out);
  read_prefix_window(config, out);
  out.dataset_cache_dir = directory(config, "dataset_cache_dir", "");
  out.dataset_cache_limit = config.get_int("dataset_cache_limit");
  if (config.has("long_prompts")) out.long_prompts = word_of<LongPrompts>(config, "long_prompts");
  if (config.has("max_prompt_length")) {
    out.max_prompt_length = config.get_optional_int("max_prompt_length");
    out.max_completion_length = config.get_optional_int("max_completion_length");
  }
  return out;
}

}  // namespace trl::config
