// Moves saved activations out of memory between forward and backward, and checks the disk's room for them.
#pragma once
#include "kernels/path.h"
#include "memory/offload.h"
#include "train/method.h"
#include "train/run/setup.h"

namespace trl::train {

class Offloading {
 public:
  // Throws Error(invalid_config) if nothing can leave memory, or not to that directory.
  Offloading(const Setup& setup, kernels::Path path);

  memory::Offload& policy() { return policy_; }
  // Returns the bytes that a batch of that many tokens sends to the disk, before compression. 0: they go
  // elsewhere than to a disk. The first call runs a forward of a few tokens to count theirs.
  int64_t bytes(int64_t tokens, Method& method);
  // Throws Error(io) if the disk has no room for it. Compressed activations are not refused here; they fail
  // when the disk is full.
  void need_room(const MicroBatch& batch, Method& method);

 private:
  const config::ActivationOffload what_;
  const bool to_disk_;
  memory::Offload policy_;
  double token_bytes_ = -1;  // bytes that leave memory per token; below 0: not known yet
};

}  // namespace trl::train
