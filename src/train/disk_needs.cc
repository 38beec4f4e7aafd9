// Predicts the files of a run, and checks that the disks have room for them.
#include <algorithm>
#include <functional>
#include <numeric>

#include "base/interrupt.h"
#include "checkpoint/save_adapter.h"
#include "checkpoint/save_model.h"
#include "train/offloading.h"
#include "train/trainer.h"

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
    std::sort(longest.begin(), longest.end(), std::greater<>());
    longest.resize(std::min(longest.size(), static_cast<size_t>(rows * per_row)));
    batches.window_done();
  }
  largest.batch = std::max(largest.batch, std::accumulate(longest.begin(), longest.end(), int64_t{0}));
  return largest;
}

}  // namespace

int64_t Trainer::model_bytes() const {
  const bool gguf = arguments().save_format == config::SaveFormat::gguf;
  if (gguf && setup_.model->adapters().trained() == nullptr)
    return checkpoint::gguf_bytes(*setup_.model, arguments().save_gguf_type);
  return weight_bytes();
}

int64_t Trainer::weight_bytes() const {
  const model::Adapter* const adapter = setup_.model->adapters().trained();
  return adapter != nullptr ? checkpoint::weight_bytes(*adapter) : checkpoint::weight_bytes(*setup_.model);
}

int64_t Trainer::checkpoint_bytes() const {
  int64_t bytes = weight_bytes();
  if (arguments().save_only_model) return bytes;
  for (const optim::StateTensor& state : optimizer_->state())
    bytes += static_cast<int64_t>(state.value.nbytes());
  for (const optim::StateTensor& state : method_->state(steps_.max_steps))
    bytes += static_cast<int64_t>(state.value.nbytes());
  return bytes;
}

// Returns the size of the file of a paged optimizer's states.
int64_t Trainer::state_file_bytes() const {
  const memory::PagedMemory* file = nullptr;
  for (const optim::StateTensor& state : optimizer_->state()) {
    if (state.paged != nullptr) file = state.paged.get();
  }
  return file == nullptr ? 0 : file->bytes();
}

DiskNeeds Trainer::disk_needs() const {
  return {checkpoints_ahead(arguments(), steps_, state_.global_step), checkpoint_bytes(), model_bytes(),
          state_file_bytes(), offloading_ ? offloading_->policy().rehearsed_bytes() : 0};
}

// Reads rows to find the largest batch only if batches as large as max_length allows may not fit.
void Trainer::need_disks() {
  const kernels::PathScope scope(path());
  DiskNeeds needs = disk_needs();
  needs.state_bytes = 0;  // their file has its room already
  const auto count = [&](const Largest& of) {
    const int64_t most = std::max(arguments().max_tokens_per_pass.value_or(of.batch), of.row);
    needs.activation_bytes = offloading_->bytes(std::min(of.batch, most), *method_);
  };
  if (offloading_) {
    const int64_t rows = arguments().per_device_train_batch_size;
    const int64_t per_row = config::sequences_per_row(arguments());
    count({setup_.longest_row * rows * per_row, setup_.longest_row});
    if (setup_.longest_row == 0 || !has_room(arguments(), needs))
      count(largest_of(*setup_.train, rows, per_row, setup_.model->config().vocab_size));
  }
  need_room(arguments(), needs, setup_.log);
}

}  // namespace trl::train
