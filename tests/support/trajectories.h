// The recorded SFT runs of TRL that this build repeats: one list for every test that goes through them.
#pragma once
#include <cstddef>
#include <iterator>

namespace trl::test {

inline constexpr const char* kSftTrajectories[] = {
    "sft_plain",
    "sft_completion_only",
    "sft_assistant_only",
    "sft_assistant_only_llama3",
    "sft_ga4",
    "sft_eval",
    "sft_cosine_warmup_wd",
    "sft_adam_betas",
    "sft_no_clip_constant",
    "sft_logging3",
    "sft_drop_last",
    "sft_epochs_partial_ga2",
    "sft_shuffled_two_epochs",
    "sft_data_seed",
    "sft_llama3_untied",
    "sft_llama_bos",
    "sft_qwen3",
    "sft_mistral_sliding",
    "sft_bf16_checkpoint",
    "sft_bf16_autocast",
    "sft_gradient_checkpointing",
    "sft_sgd",
    "sft_rmsprop",
    "sft_adafactor",
    "sft_label_smoothing",
    "sft_dft",
    "sft_pack_bfd",
    "sft_pack_bfd_split",
    "sft_pack_wrapped",
    "sft_padding_free",
    "sft_pad_multiple",
    "sft_eval_packed",
    "sft_completion_full",
};
inline constexpr size_t kSftTrajectoryCount = 33;
static_assert(std::size(kSftTrajectories) == kSftTrajectoryCount);

}  // namespace trl::test
