// The weights of a model, which clients replace while it is served: one at a time, all that they send or
// nothing, between two steps.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "capi/serve_table.h"
#include "serve/handles.h"
#include "serve/weights/shared_memory.h"
#include "serve/weights/staged_tensors.h"
#include "serve/weights/tensor_message.h"

namespace trl::serve {

class Worker;

// The outcome of an update.
struct WeightUpdate {
  int64_t version = 0;
  size_t changed = 0;  // tensors
  uint64_t bytes = 0;
  double hash_seconds = 0, swap_seconds = 0;
};

struct WeightCounts {
  int64_t done = 0, refused = 0, version = 0;
  double swap_seconds = 0;  // of all
};

class Weights {
 public:
  // The arguments outlive this. model: null if its weights are not replaced. parameters: of the model.
  Weights(const capi::ServeTable& table, trl_model* model, Worker& worker, uint64_t parameters);
  // Returns the right to replace the weights, which is given back with the pointer. Throws Refusal(409) while
  // another client has it, Refusal(400) if they are not replaced.
  std::shared_ptr<const void> claim();
  bool claimed() const { return *claimed_; }
  bool can_change() const { return model_ != nullptr; }
  // The most bytes that a message has.
  uint64_t most_bytes() const { return most_bytes_; }
  // Returns {version, updating, tensors: [{name, shape, dtype, hash}]}; hash: of the numbers as they are,
  // null for tensors that cannot be sent.
  base::Json list();
  // Replaces what a message has; the caller holds the claim. Throws Refusal and Error: the model is as
  // before, and version() too, unless the weights are not whole() any more.
  WeightUpdate take(std::string_view message);
  SharedMemories& memories() { return memories_; }
  // Returns memory for a body, if one was kept, and keeps that of one. The caller holds the claim.
  std::string spare_body() { return std::exchange(body_, {}); }
  void keep_body(std::string body) { body_ = std::move(body); }
  // Gives back what is kept for the next update, unless one runs. Any thread.
  void release_memory() noexcept;
  WeightCounts counts() const;
  int64_t version() const { return counts().version; }
  bool whole() const;  // false: an update that failed has left them incomplete

 private:
  struct Known {
    std::vector<int64_t> shape;
    std::string dtype, stored;
    std::optional<uint64_t> hash;
  };
  using Table = std::map<std::string, Known, std::less<>>;
  void learn_tensors();
  void learn_hashes();
  void check_whole(const TensorMessage& message) const;
  void check_message(const TensorMessage& message);
  const Known& known(std::string_view name) const;
  WeightUpdate replace(const TensorMessage& message);

  const capi::ServeTable& table_;
  trl_model* const model_;
  Worker& worker_;
  const uint64_t most_bytes_;
  const std::shared_ptr<std::atomic<bool>> claimed_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex listing_;  // of tensors_
  Table tensors_;
  StagedTensors staged_;  // of the claim's holder
  std::string body_;      // the same
  SharedMemories memories_;
  mutable std::mutex mutex_;  // of counts_
  WeightCounts counts_;
};

}  // namespace trl::serve
