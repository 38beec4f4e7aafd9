// Activations that leave memory between forward and backward: for a file, or, from another device, for the
// host's memory. A dedicated thread writes them while forward continues, and brings them back while backward
// runs, the last ones first.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "config/recompute.h"
#include "memory/offload_file.h"
#include "tensor/saved.h"

namespace trl::memory {

// One per trainer. Parameters, and the gradient that the head makes, are neither saved here nor moved.
class Offload final : public tensor::SavedPolicy {
 public:
  // Throws the errors of OffloadFile. on_the_way: bytes that may wait to be written before forward waits for
  // them, and bytes that are brought back before backward asks for them; one tensor may be larger.
  explicit Offload(const config::ActivationOffload& what, const base::WriteFault* fault = nullptr,
                   int64_t on_the_way = int64_t{32} << 20);
  ~Offload() override;

  // One forward with its backward. The thread runs from the first tensor that leaves until the end of this.
  class Pass {
   public:
    explicit Pass(Offload* offload) : offload_(offload), scope_(offload) {}  // null: nothing leaves
    ~Pass() {
      if (offload_ != nullptr) offload_->stop();
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Offload* const offload_;
    const tensor::SavedScope scope_;
  };

  // Throws Error(io) if this tensor or an earlier one could not be written.
  std::unique_ptr<tensor::Away> saved(const at::Tensor& x, std::string_view by) override;
  bool leaves(const at::Tensor& x, std::string_view by) const;
  const OffloadFile& file() const { return *file_; }
  // The most disk space, in bytes, that a rehearsed pass would have used at one time; compression may reduce
  // it.
  int64_t rehearsed_bytes() const { return rehearsed_->most; }

 private:
  struct Slot;
  class View;
  using SlotPtr = std::shared_ptr<Slot>;
  using Lock = std::unique_lock<std::mutex>;

  std::unique_ptr<tensor::Away> rehearsed(const at::Tensor& x);
  SlotPtr slot_of(const at::Tensor& x, const Lock& lock);
  void bring(const SlotPtr& slot);
  void fetch_ahead(const Lock& lock);
  void work();
  void write(Slot& slot, Lock& lock);
  void read(Slot& slot, Lock& lock);
  void stop() noexcept;

  const config::ActivationOffload what_;
  const int64_t on_the_way_;
  const std::shared_ptr<OffloadFile> file_;
  std::mutex mutex_;  // guards all members below, and the slots
  std::condition_variable changed_;
  std::thread thread_;
  bool stop_ = false;
  std::exception_ptr error_;
  std::deque<std::pair<std::weak_ptr<Slot>, int64_t>> queue_;  // with the number of bytes to write
  int64_t waiting_bytes_ = 0;               // bytes of the queue and of the tensor being written
  std::vector<std::weak_ptr<Slot>> order_;  // in the order in which they left
  std::unordered_map<const void*, std::weak_ptr<Slot>> by_storage_;

  // Disk space in a rehearsal.
  struct OnDisk {
    int64_t now = 0, most = 0;  // bytes
  };
  struct Extent;
  class Rehearsed;
  const std::shared_ptr<OnDisk> rehearsed_ = std::make_shared<OnDisk>();
  std::unordered_map<const void*, std::weak_ptr<Extent>> extents_;  // by storage
  std::deque<c10::Storage> on_their_way_;
};

}  // namespace trl::memory
