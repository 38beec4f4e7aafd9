#include "train/memory/offloading.h"

#include <ATen/core/grad_mode.h>

#include <unordered_set>

#include "base/error.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::train {

namespace {

constexpr int64_t kCounted = 128;  // tokens

// Adds up the bytes that would leave memory, each storage once.
class Count final : public tensor::SavedPolicy {
 public:
  explicit Count(const memory::Offload& of) : of_(of) {}
  std::unique_ptr<tensor::Away> saved(const at::Tensor& x, std::string_view by) override {
    if (of_.leaves(x, by) && seen_.insert(x.storage().unsafeGetStorageImpl()).second) {
      bytes += static_cast<int64_t>(x.storage().nbytes());
      held_.push_back(x.storage());  // so that its address is not reused
    }
    return nullptr;
  }
  int64_t bytes = 0;

 private:
  const memory::Offload& of_;
  std::unordered_set<const c10::StorageImpl*> seen_;
  std::vector<c10::Storage> held_;
};

MicroBatch document(int64_t tokens) {
  MicroBatch batch;
  batch.input_ids = tensor::zeros({tokens}, at::kInt, tensor::MemoryKind::data);
  batch.position_ids = tensor::zeros({tokens}, at::kInt, tensor::MemoryKind::data);
  batch.segments =
      std::make_shared<kernels::Segments>(kernels::Segments{{0, static_cast<int32_t>(tokens)}, tokens});
  batch.rows = 1;
  batch.width = tokens;
  return batch;
}

config::ActivationOffload checked(const Setup& setup, kernels::Path path) {
  const config::ActivationOffload& what = *setup.arguments.offload;
  const bool plain = path == kernels::Path::plain || !setup.model->device().is_cpu();
  if (plain && setup.arguments.recompute.form == config::Recomputed::nothing) {
    fail_key(
        "activation_offloading",
        "activation_offloading: {} PyTorch's own operators keep the activations, and nothing can move them: "
        "give gradient_checkpointing: true, so that it is the inputs of the layers that leave",
        setup.model->device().is_cpu() ? "with fused_kernels: off" : "on " + setup.model->device().str());
  }
  return what;
}

}  // namespace

Offloading::Offloading(const Setup& setup, kernels::Path path)
    : what_(checked(setup, path)),
      to_disk_(setup.model->device().is_cpu()),
      policy_(what_, setup.write_fault) {}

int64_t Offloading::bytes(int64_t tokens, Method& method) {
  if (!to_disk_ || tokens <= 0) return 0;
  if (token_bytes_ < 0) {
    const at::AutoGradMode with_graph(true);
    Count count(policy_);
    const tensor::SavedScope scope(&count);
    method.forward(document(kCounted), RunPosition{});
    token_bytes_ = static_cast<double>(count.bytes) / static_cast<double>(kCounted);
  }
  return static_cast<int64_t>(token_bytes_ * static_cast<double>(tokens));
}

void Offloading::need_room(const MicroBatch& batch, Method& method) {
  if (tensor::Rehearsal::current() != nullptr || what_.zstd) return;  // the compressed size is not known
  const int64_t tokens = batch.input_ids.numel(), needed = bytes(tokens, method);
  const memory::OffloadFile& file = policy_.file();
  const int64_t room = file.size() - file.used() + file.free_bytes();
  if (needed <= room) return;
  throw Error(Status::io,
              fmt::format("{}: {} bytes of activations leave memory for a batch of {} tokens, and its disk "
                          "has {} bytes free: free some, or name a directory on another disk in offload_dir",
                          file.directory(), needed, tokens, room),
              "offload_dir");
}

}  // namespace trl::train
