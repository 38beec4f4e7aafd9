#include "memory/offload.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <zstd.h>

#include "base/error.h"
#include "base/threads/thread_pool.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::memory {

namespace {

constexpr int64_t kPart = int64_t{8} << 20;

// A tensor of another device, held in the host's memory.
class OnHost final : public tensor::Away {
 public:
  explicit OnHost(const at::Tensor& x)
      : device_(x.device()),
        copy_(tensor::empty(x.sizes(), x.scalar_type(), tensor::MemoryKind::activations).copy_(x.detach())) {}
  at::Tensor back() override { return copy_.to(device_); }

 private:
  const at::Device device_;
  const at::Tensor copy_;
};

// Returns the compressed bytes; empty: they would not be smaller.
std::string compressed(std::span<const char> raw) {
  std::string out(ZSTD_compressBound(raw.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 1);
  out.resize(ZSTD_isError(size) != 0u || size >= raw.size() ? 0 : size);
  return out;
}

}  // namespace

// A storage that has left or will leave. Several tensors may be views of it.
struct Offload::Slot {
  enum class State : uint8_t { here, being_written, away, being_read };
  struct Part {
    OffloadFile::Extent extent;
    int64_t bytes = 0;  // in memory; if the extent has another number, it is compressed
  };

  Slot(const c10::Storage& of, std::shared_ptr<OffloadFile> into)
      : identity(of.getWeakStorageImpl()),
        bytes(static_cast<int64_t>(of.nbytes())),
        file(std::move(into)),
        storage(of) {}
  ~Slot() { free_parts(); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  void free_parts() noexcept {
    for (const Part& part : parts) file->free(part.extent);
    parts.clear();
  }
  std::span<char> memory() const {
    return {static_cast<char*>(storage.data_ptr().get()), static_cast<size_t>(bytes)};
  }

  const c10::weak_intrusive_ptr<c10::StorageImpl> identity;  // keeps other storages from getting its address
  const int64_t bytes;
  const std::shared_ptr<OffloadFile> file;
  c10::Storage storage;  // empty while it is away
  std::vector<Part> parts;
  State state = State::here;
  bool needed = false;  // backward has asked for it, or will soon
  bool asked = false;   // backward has asked for it
};

// One tensor's view of a slot.
class Offload::View final : public tensor::Away {
 public:
  View(Offload& owner, SlotPtr slot, const at::Tensor& x)
      : owner_(owner),
        slot_(std::move(slot)),
        sizes_(x.sizes().vec()),
        strides_(x.strides().vec()),
        offset_(x.storage_offset()),
        type_(x.dtype()) {}

  at::Tensor back() override {
    owner_.bring(slot_);
    at::Tensor x = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(slot_->storage), c10::DispatchKeySet(c10::DispatchKey::CPU), type_);
    x.unsafeGetTensorImpl()->set_storage_offset(offset_);
    x.unsafeGetTensorImpl()->set_sizes_and_strides(sizes_, strides_);
    return x;
  }

 private:
  Offload& owner_;
  const SlotPtr slot_;
  const std::vector<int64_t> sizes_, strides_;
  const int64_t offset_;
  const caffe2::TypeMeta type_;
};

// The file space that a storage would take while a tensor of it is away.
struct Offload::Extent {
  Extent(const c10::Storage& of, std::shared_ptr<OnDisk> on)
      : identity(of.getWeakStorageImpl()),
        bytes((static_cast<int64_t>(of.nbytes()) + 4095) / 4096 * 4096),
        disk(std::move(on)) {
    disk->now += bytes;
    disk->most = std::max(disk->most, disk->now);
  }
  ~Extent() { disk->now -= bytes; }
  Extent(const Extent&) = delete;
  Extent& operator=(const Extent&) = delete;

  const c10::weak_intrusive_ptr<c10::StorageImpl> identity;  // keeps other storages from getting its address
  const int64_t bytes;
  const std::shared_ptr<OnDisk> disk;
};

// A tensor in a rehearsal, in which nothing is written: it takes its bytes again when it comes back.
class Offload::Rehearsed final : public tensor::Away {
 public:
  Rehearsed(const at::Tensor& x, std::shared_ptr<Extent> extent)
      : sizes_(x.sizes().vec()), type_(x.scalar_type()), extent_(std::move(extent)) {}
  at::Tensor back() override { return tensor::empty(sizes_, type_, tensor::MemoryKind::activations); }

 private:
  const std::vector<int64_t> sizes_;
  const at::ScalarType type_;
  const std::shared_ptr<Extent> extent_;
};

// Keeps the last storages, as many bytes as may be on their way to the file.
std::unique_ptr<tensor::Away> Offload::rehearsed(const at::Tensor& x) {
  std::weak_ptr<Extent>& known = extents_[x.storage().unsafeGetStorageImpl()];
  std::shared_ptr<Extent> extent = known.lock();
  if (extent == nullptr) {
    known = extent = std::make_shared<Extent>(x.storage(), rehearsed_);
    tensor::Rehearsal::current()->note_leaving(extent->bytes);
  }
  on_their_way_.push_back(x.storage());
  int64_t bytes = 0;
  for (size_t i = on_their_way_.size(); i-- > 0;) {
    bytes += static_cast<int64_t>(on_their_way_[i].nbytes());
    if (bytes <= on_the_way_ || i + 1 == on_their_way_.size()) continue;
    on_their_way_.erase(on_their_way_.begin(), on_their_way_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    break;
  }
  return std::make_unique<Rehearsed>(x, std::move(extent));
}

Offload::Offload(const config::ActivationOffload& what, const base::WriteFault* fault, int64_t on_the_way)
    : what_(what), on_the_way_(on_the_way), file_(std::make_shared<OffloadFile>(what.directory, fault)) {}

Offload::~Offload() { stop(); }

bool Offload::leaves(const at::Tensor& x, std::string_view by) const {
  if (by == tensor::kHead || (!what_.all && by != tensor::kLayerInput)) return false;
  return static_cast<int64_t>(x.nbytes()) >= what_.min_bytes;
}

std::unique_ptr<tensor::Away> Offload::saved(const at::Tensor& x, std::string_view by) {
  if (!leaves(x, by)) return nullptr;
  if (!x.device().is_cpu()) return std::make_unique<OnHost>(x);
  if (tensor::Rehearsal::current() != nullptr) return rehearsed(x);
  Lock lock(mutex_);
  SlotPtr slot = slot_of(x, lock);
  changed_.wait(lock,
                [&] { return waiting_bytes_ <= std::max(on_the_way_, slot->bytes) || error_ != nullptr; });
  if (error_ != nullptr) std::rethrow_exception(error_);
  return std::make_unique<View>(*this, std::move(slot), x);
}

Offload::SlotPtr Offload::slot_of(const at::Tensor& x, const Lock& /*held*/) {
  std::weak_ptr<Slot>& known = by_storage_[x.storage().unsafeGetStorageImpl()];
  if (SlotPtr slot = known.lock()) return slot;
  auto slot = std::make_shared<Slot>(x.storage(), file_);
  known = slot;
  order_.push_back(slot);
  queue_.emplace_back(slot, slot->bytes);
  waiting_bytes_ += slot->bytes;
  if (!thread_.joinable()) thread_ = base::quiet_thread("trl-offload", [this] { work(); });
  changed_.notify_all();
  return slot;
}

void Offload::bring(const SlotPtr& slot) {
  Lock lock(mutex_);
  if (error_ != nullptr) std::rethrow_exception(error_);
  slot->needed = slot->asked = true;
  changed_.wait(lock, [&] { return slot->state != Slot::State::being_read; });
  if (slot->state == Slot::State::away) read(*slot, lock);
  fetch_ahead(lock);
}

// Fetches the last storages that backward has not asked for, as many as there is room for.
void Offload::fetch_ahead(const Lock& /*held*/) {
  while (!order_.empty() && order_.back().expired()) order_.pop_back();
  int64_t ahead = 0;
  for (auto at = order_.rbegin(); at != order_.rend(); ++at) {
    const SlotPtr slot = at->lock();
    if (slot == nullptr || slot->asked) continue;
    if (ahead > 0 && ahead + slot->bytes > on_the_way_) break;
    ahead += slot->bytes;
    if (!std::exchange(slot->needed, true) && slot->state == Slot::State::away) queue_.emplace_back(slot, 0);
  }
  changed_.notify_all();
}

void Offload::work() {
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const auto [weak, waiting] = queue_.front();
    queue_.pop_front();
    if (const SlotPtr slot = weak.lock()) {
      if (slot->state == Slot::State::here && !slot->needed && error_ == nullptr) {
        write(*slot, lock);
      } else if (slot->state == Slot::State::away && slot->needed) {
        try {
          read(*slot, lock);
        } catch (...) {  // backward tries again, and reports the error
        }
      }
    }
    waiting_bytes_ -= waiting;
    changed_.notify_all();
  }
}

void Offload::write(Slot& slot, Lock& lock) {
  slot.state = Slot::State::being_written;
  lock.unlock();
  std::exception_ptr error;
  try {
    const std::span<const char> all = slot.memory();
    for (int64_t begin = 0; begin < slot.bytes; begin += kPart) {
      const auto raw =
          all.subspan(static_cast<size_t>(begin), static_cast<size_t>(std::min(kPart, slot.bytes - begin)));
      const std::string packed = what_.zstd ? compressed(raw) : std::string();
      slot.parts.push_back({file_->write(packed.empty() ? raw : std::span<const char>(packed)),
                            static_cast<int64_t>(raw.size())});
    }
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error != nullptr) error_ = error;
  const bool stays = error != nullptr || slot.needed;
  slot.state = stays ? Slot::State::here : Slot::State::away;
  c10::Storage freed;
  if (stays)
    slot.free_parts();
  else
    freed = std::exchange(slot.storage, c10::Storage());
}

void Offload::read(Slot& slot, Lock& lock) {
  slot.state = Slot::State::being_read;
  lock.unlock();
  at::Tensor bytes;
  std::exception_ptr error;
  try {
    bytes = tensor::empty({slot.bytes}, at::kByte, tensor::MemoryKind::activations);
    auto* to = static_cast<char*>(bytes.data_ptr());
    std::string packed;
    for (const Slot::Part& part : slot.parts) {
      if (part.extent.bytes == part.bytes) {
        file_->read(part.extent, to);
      } else {
        packed.resize(static_cast<size_t>(part.extent.bytes));
        file_->read(part.extent, packed.data());
        const auto size = static_cast<size_t>(part.bytes);
        if (ZSTD_decompress(to, size, packed.data(), packed.size()) != size)
          fail(Status::io, "{}: what left memory cannot be decompressed", file_->directory());
      }
      to += part.bytes;
    }
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  slot.state = error != nullptr ? Slot::State::away : Slot::State::here;
  changed_.notify_all();
  if (error != nullptr) std::rethrow_exception(error);
  slot.storage = bytes.storage();
  slot.free_parts();
}

void Offload::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  stop_ = false;
  error_ = nullptr;
  on_their_way_.clear();
  extents_.clear();
  waiting_bytes_ = 0;
  queue_.clear();
  order_.clear();
  by_storage_.clear();
}

}  // namespace trl::memory
