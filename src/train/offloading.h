// What leaves memory between forward and backward of a run, and whether the disk has room for it.
#pragma once
#include "kernels/path.h"
#include "memory/offload.h"
#include "train/trainer.h"

namespace trl::train {

class Offloading {
 public:
  // Throws Error(invalid_config) where nothing can leave, or not to that directory.
  Offloading(const Setup& setup, kernels::Path path);

  memory::Offload& policy() { return policy_; }
  // What a batch of that many tokens sends to the disk, before it is compressed. 0: it is not a disk that
  // it leaves for. The first call counts what a few tokens leave behind, by a forward of them.
  int64_t bytes(int64_t tokens, Method& method);
  // Throws Error(io) if the disk has no room for it. Compressed activations are not refused here; they fail
  // when the disk is full.
  void need_room(const MicroBatch& batch, Method& method);

 private:
  const config::ActivationOffload what_;
  const bool to_disk_;
  memory::Offload policy_;
  double token_bytes_ = -1;  // that leave of each token; below 0: not known yet
};

}  // namespace trl::train
