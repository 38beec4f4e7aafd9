#include "train/saving/disk_needs.h"

#include <sys/stat.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "base/arithmetic/divide.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/interrupt.h"
#include "base/text/number.h"
#include "checkpoint/save.h"
#include "train/memory/offloading.h"

namespace trl::train {

namespace {

struct Largest {
  int64_t batch = 0, row = 0;  // tokens; 0: not known
};

// Returns the largest batch of an epoch: a batch of the longest sequences or, if rows are packed, the largest
// batch of the first epoch. Not known if rows can be read only once.
Largest largest_of(engine::BatchSource& source, int64_t rows, int64_t per_row, int64_t vocab_size) {
  if (source.batches_per_epoch() < 0) return {};
  Batches batches(source, vocab_size);
  std::vector<int64_t> longest;
  Largest largest;
  for (;;) {
    base::poll();
    const std::vector<MicroBatch>& window = batches.fill_window(1);
    if (window.empty()) break;
    const std::vector<int32_t>& borders = window[0].segments->cu_seqlens;
    largest.batch = std::max(largest.batch, window[0].input_ids.numel());
    largest.row = std::max(largest.row, window[0].segments->max_length);
    for (size_t d = 0; std::ssize(borders) == window[0].rows * per_row + 1 && d + 1 < borders.size(); ++d)
      longest.push_back(borders[d + 1] - borders[d]);
    std::ranges::sort(longest, std::greater<>());
    longest.resize(std::min(longest.size(), static_cast<size_t>(rows * per_row)));
    batches.window_done();
  }
  largest.batch = std::max(largest.batch, std::accumulate(longest.begin(), longest.end(), int64_t{0}));
  return largest;
}

int64_t weight_bytes(const Setup& setup) {
  const model::Adapter* const adapter = setup.model->adapters().trained();
  return adapter != nullptr ? checkpoint::weight_bytes(*adapter) : checkpoint::weight_bytes(*setup.model);
}

// Returns the bytes of the model at the end.
int64_t model_bytes(const Setup& setup) {
  const bool gguf = setup.arguments.save_format == config::SaveFormat::gguf;
  if (gguf && setup.model->adapters().trained() == nullptr)
    return checkpoint::gguf_bytes(*setup.model, setup.arguments.save_gguf_type);
  return weight_bytes(setup);
}

int64_t bytes_of(const std::vector<optim::StateTensor>& states) {
  int64_t bytes = 0;
  for (const optim::StateTensor& state : states) bytes += static_cast<int64_t>(state.value.nbytes());
  return bytes;
}

// Returns the bytes of a checkpoint's weights and states.
int64_t checkpoint_bytes(const Setup& setup, const Stepper& stepper, int64_t max_steps) {
  if (setup.arguments.save_only_model) return weight_bytes(setup);
  return weight_bytes(setup) + bytes_of(stepper.optimizer().state()) + bytes_of(stepper.kept(max_steps));
}

// Returns the size of the file of a paged optimizer's states.
int64_t state_file_bytes(const Stepper& stepper) {
  const memory::PagedMemory* file = nullptr;
  for (const optim::StateTensor& state : stepper.optimizer().state())
    if (state.paged != nullptr) file = state.paged.get();
  return file == nullptr ? 0 : file->bytes();
}

// Returns the device number of a directory's disk; -1: not known.
int64_t disk_of(const std::string& directory) {
  struct stat info {};
  return ::stat(base::nearest_existing(directory).c_str(), &info) == 0 ? static_cast<int64_t>(info.st_dev)
                                                                       : -1;
}

}  // namespace

DiskNeeds disk_needs(const Setup& setup, const Stepper& stepper, const RunSteps& steps, int64_t done) {
  Offloading* const offloading = stepper.offloading();
  return {checkpoints_ahead(setup.arguments, steps, done), checkpoint_bytes(setup, stepper, steps.max_steps),
          model_bytes(setup), state_file_bytes(stepper),
          offloading != nullptr ? offloading->policy().rehearsed_bytes() : 0};
}

// Reads rows to find the largest batch only if batches as large as max_length allows may not fit. Rows that a
// generation has yet to write are not known: each forward asks for its own room.
void need_disks(const Setup& setup, const Stepper& stepper, const RunSteps& steps, int64_t done) {
  const config::TrainingArguments& arguments = setup.arguments;
  DiskNeeds needs = disk_needs(setup, stepper, steps, done);
  needs.state_bytes = 0;  // their file has its room already
  const auto count = [&](const Largest& of) {
    const int64_t most = std::max(arguments.max_tokens_per_pass.value_or(of.batch), of.row);
    needs.activation_bytes = stepper.offloading()->bytes(std::min(of.batch, most), stepper.method());
  };
  if (stepper.offloading() != nullptr) {
    const int64_t rows = arguments.per_device_train_batch_size;
    const int64_t per_row = config::sequences_per_row(arguments);
    count({setup.longest_row * rows * per_row, setup.longest_row});
    if (!setup.rollouts && (setup.longest_row == 0 || !has_room(arguments, needs)))
      count(largest_of(*setup.train, rows, per_row, setup.model->config().vocab_size));
  }
  need_room(arguments, needs, setup.log);
}

int64_t DiskNeeds::saved_bytes() const {
  int64_t bytes = 0;
  const bool beyond = __builtin_mul_overflow(checkpoints, checkpoint_bytes, &bytes) ||
                      __builtin_add_overflow(bytes, model_bytes, &bytes);
  return beyond ? std::numeric_limits<int64_t>::max() / 2 : bytes;
}

int64_t checkpoints_ahead(const config::TrainingArguments& arguments, const RunSteps& steps, int64_t done) {
  using config::Strategy;
  const int64_t left = steps.max_steps - done;
  if (arguments.save_strategy == Strategy::no || left <= 0) return 0;
  int64_t count = 1, saved = 0;
  if (arguments.save_strategy == Strategy::steps) {
    saved = done / steps.save_steps;
    count = steps.max_steps / steps.save_steps - saved + (steps.max_steps % steps.save_steps != 0 ? 1 : 0);
  }
  if (arguments.save_strategy == Strategy::epoch) {
    const int64_t updates = std::max<int64_t>(1, steps.updates_per_epoch);
    saved = done / updates;
    count = base::divide_up(left, updates);
  }
  if (!arguments.save_total_limit) return count;
  // With a limit of one the best and the newest stay, and a new one is written before the oldest is removed.
  const int64_t stay =
      std::max<int64_t>(*arguments.save_total_limit, arguments.metric_for_best_model.empty() ? 1 : 2);
  return std::min(count, stay + 1 - std::min(saved, stay));
}

int64_t free_on_disk(const std::string& directory) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(base::nearest_existing(directory), error);
  if (error) return -1;
  return static_cast<int64_t>(std::min<uintmax_t>(space.available, INT64_MAX));
}

namespace {

// Bytes needed and free on a disk with too little room.
struct Lack {
  const char* key;
  std::string directory;
  int64_t needed, free;
};

std::optional<Lack> lack(const config::TrainingArguments& arguments, const DiskNeeds& needs) {
  const std::string away = config::offload_directory(arguments);
  const bool together = !away.empty() && disk_of(arguments.output_dir) == disk_of(away);
  const int64_t saved = needs.saved_bytes() + (together ? needs.away_bytes() : 0);
  if (const int64_t free = free_on_disk(arguments.output_dir); free >= 0 && saved > free)
    return Lack{"output_dir", arguments.output_dir, saved, free};
  if (away.empty() || together) return std::nullopt;
  if (const int64_t free = free_on_disk(away); free >= 0 && needs.away_bytes() > free)
    return Lack{"offload_dir", away, needs.away_bytes(), free};
  return std::nullopt;
}

std::string in_words(int64_t bytes) { return base::bytes_text(static_cast<double>(bytes)); }

// "3 checkpoints of 10 MB, a model of 5 MB and 7 MB of activations that leave memory"
std::string parts(const DiskNeeds& needs, bool saved, bool away) {
  std::vector<std::string> all;
  if (saved && needs.checkpoints > 0)
    all.push_back(fmt::format("{} of {}", base::quantity(needs.checkpoints, "checkpoint"),
                              in_words(needs.checkpoint_bytes)));
  if (saved) all.push_back(fmt::format("a model of {}", in_words(needs.model_bytes)));
  if (away && needs.state_bytes > 0)
    all.push_back(fmt::format("{} of the optimizer's states", in_words(needs.state_bytes)));
  if (away && needs.activation_bytes > 0)
    all.push_back(fmt::format("{} of activations that leave memory", in_words(needs.activation_bytes)));
  std::string last = std::move(all.back());
  all.pop_back();
  return all.empty() ? last : fmt::format("{} and {}", fmt::join(all, ", "), last);
}

void refuse_lack(const config::TrainingArguments& arguments, const DiskNeeds& needs) {
  const std::optional<Lack> found = lack(arguments, needs);
  if (!found) return;
  const bool saved = std::string_view(found->key) == "output_dir";
  const bool away = !saved || found->needed > needs.saved_bytes();
  std::string remedy = "free some, ";
  if (saved && needs.checkpoints > 0) remedy += "give a smaller save_total_limit or save_only_model: true, ";
  throw Error(
      Status::io,
      fmt::format("{}: {}: {} need {}, and the disk has {} free: {}or name a directory on another disk{}",
                  found->key, found->directory, parts(needs, saved, away), in_words(found->needed),
                  in_words(found->free), remedy, saved && away ? " here or in offload_dir" : ""),
      found->key);
}

}  // namespace

bool has_room(const config::TrainingArguments& arguments, const DiskNeeds& needs) {
  return !lack(arguments, needs);
}

void need_room(const config::TrainingArguments& arguments, const DiskNeeds& needs, base::LogSink* log) {
  const bool shrinks = arguments.offload && arguments.offload->zstd;
  DiskNeeds sure = needs;
  if (shrinks) sure.activation_bytes = 0;
  refuse_lack(arguments, sure);
  if (!shrinks || log == nullptr || has_room(arguments, needs)) return;
  const std::string directory = config::offload_directory(arguments);
  log->warning("train",
               "offload_dir: {}: up to {} of activations leave memory before they are compressed, and the "
               "disk has {} free: the run ends with an error if they do not become small enough",
               directory, in_words(needs.activation_bytes), in_words(free_on_disk(directory)));
}

}  // namespace trl::train
