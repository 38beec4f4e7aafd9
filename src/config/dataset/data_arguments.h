// The typed view of the options that determine the rows of a run: how they are read, prepared, ordered and
// packed. Names are TRL's.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace trl::config {

enum class Sampling : uint8_t { random, sequential, group_by_length };
enum class LongPrompts : uint8_t { count, drop, refuse };
enum class Packing : uint8_t { none, bfd, bfd_split, wrapped };

struct DataArguments {
  std::string row_options;  // the options that prepared rows depend on, and their values
  std::string dataset_text_field = "text";
  std::optional<int64_t> max_length = 1024;
  bool truncation_keep_end = false;
  std::optional<bool> completion_only_loss;
  bool assistant_only_loss = false;
  bool shuffle_dataset = false;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;
  std::optional<std::string> chat_template;  // inline template text (alignment-handbook)
  std::optional<std::string> chat_template_path;
  std::vector<std::string_view> template_keys;  // of these two, those that the method has
  std::string chat_template_kwargs = "{}";      // template variables of all prompts
  std::vector<std::pair<std::string, std::string>> dataset_columns;  // {from, to}
  // The only columns read, by their names in the file; empty: all.
  std::vector<std::string> dataset_select_columns;
  bool split_special_tokens = false;
  bool bare_prompts = false;  // prompts of plain text get no special tokens
  bool skip_prepare_dataset = false;
  int64_t dataset_num_proc = 0;          // 0: all
  Sampling sampling = Sampling::random;  // train_sampling_strategy
  Packing packing = Packing::none;       // packing and packing_strategy, for the training rows
  Packing eval_packing = Packing::none;
  bool padding_free = false;      // the effective value: packing by bfd and bfd_split sets it
  bool streaming = false;         // dataset_streaming, streaming
  std::string dataset_cache_dir;  // empty: none
  int64_t dataset_cache_limit = 0;
  bool dataloader_drop_last = false;
  int64_t share_prefix_window = 0;  // micro-batches; 0: none
  std::optional<int64_t> pad_to_multiple_of;
  std::optional<int64_t> max_prompt_length;  // DPO: the end of each prompt is kept
  std::optional<int64_t>
      max_completion_length;  // the start of each completion is kept; both apply before max_length
  // The most tokens that a prompt may have if the model's positions are to hold a whole completion after it.
  // Set from the model, not by an option; null: any number.
  std::optional<int64_t> prompt_room;
  LongPrompts long_prompts = LongPrompts::count;
};
// Reads and cross-checks the arguments of the configuration's method; throws Error(invalid_config).
DataArguments data_arguments(const Config& config);

}  // namespace trl::config
