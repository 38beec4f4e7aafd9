// Lists, for the log before a run, options that act differently from their names.
#include "base/error.h"
#include "base/text/number.h"
#include "config/data_arguments.h"
#include "config/optim_arguments.h"
#include "config/training_arguments.h"

namespace trl::config {

std::vector<std::string> run_notes(const Config& config) {
  std::vector<std::string> notes;
  for (std::string& note : recompute_notes(config)) notes.push_back(std::move(note));
  const DataArguments data = data_arguments(config);
  if (data.padding_free && data.packing == Packing::wrapped) {
    notes.push_back(
        "padding_free with packing_strategy wrapped: the documents of a packed row still see each other, as "
        "in TRL");
  }
  if (data.padding_free && data.packing == Packing::none &&
      config.get_int("per_device_train_batch_size") == 1) {
    notes.push_back("padding_free with per_device_train_batch_size 1: a batch of one row has no padding");
  }
  if (data.streaming && data.sampling == Sampling::random) {
    notes.push_back(
        data.shuffle_dataset
            ? "dataset_streaming with shuffle_dataset: rows are shuffled within a buffer of 1000, "
              "as in TRL"
            : "dataset_streaming: rows are trained on in the order in which they are read");
  }
  if (data.streaming && data.dataloader_drop_last) {
    notes.push_back(
        "dataset_streaming with dataloader_drop_last: the last batch is trained on even when it is not "
        "full, as in TRL");
  }
  if (const std::optional<double> decay = optim_arguments(config).weight_decay) {
    notes.push_back(fmt::format(
        "optim_args: weight_decay {} has no effect, as in Trainer: the weights decay by the option "
        "weight_decay, which is {}",
        base::format_double(*decay), config.get("weight_decay")));
  }
  if (config.get_text("offload_dir") && !optim(config).paged && !activation_offload(config) &&
      !config.get_text("memory_budget")) {
    notes.push_back(
        "offload_dir: nothing leaves memory in this run; it has an effect with a paged_ optimizer, with "
        "activation_offloading: true, or with memory_budget");
  }
  if (config.get("save_strategy") == "no")
    notes.push_back("save_strategy no: no checkpoints are written, only the final model");
  if (config.get("loss_type") == "chunked_nll") notes.push_back("loss_type chunked_nll is now called nll");
  if (config.get("truncation_mode") == "keep_end") {
    notes.push_back("truncation_mode keep_end: it is deprecated in TRL, whose version 2 will remove it");
  }
  return notes;
}

}  // namespace trl::config
