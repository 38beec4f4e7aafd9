// Tensors whose bytes are counted by the one memory counter. Every large buffer of the engine is allocated
// here.
#pragma once
#include <ATen/ATen.h>

#include "base/memory/memory.h"
#include "engine/host.h"

namespace trl::tensor {

using base::MemoryKind;

// Sets the host's counter. Called once by entry/ (and by tests) before any tensor is made; null: the engine's
// own counter, without limit.
void set_host(engine::Host* host);

// Frees stored blocks now. Freed blocks of activations and workspace are kept for the next request of about
// their size, since the kernel's page faults cost as much as one of our small kernels. They stay charged (as
// workspace), never raise the peak above its value without them, are freed when the limit is reached, and
// when no tensor is left.
void trim();

// Whether the host limits the counted memory.
bool has_memory_limit();

// Uninitialised, contiguous, 64-byte aligned CPU memory. Throws Error(out_of_memory) if it would exceed the
// limit. On another device: libtorch's memory, which is not the host's and not counted.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, MemoryKind kind, at::Device device = at::kCPU);
at::Tensor zeros(at::IntArrayRef sizes, at::ScalarType type, MemoryKind kind, at::Device device = at::kCPU);
at::Tensor empty_like(const at::Tensor& tensor, MemoryKind kind);  // on the tensor's device

// Returns memory to the system when an object ends, even if other objects of its kind still exist. Declare it
// as the first member of an object, so that it is destroyed after all others: returns the memory that is free
// then, the stored blocks and malloc's pages. Does nothing in a rehearsal, which has no pages.
class GivesBack {
 public:
  GivesBack() = default;
  ~GivesBack();
  GivesBack(const GivesBack&) = delete;
  GivesBack& operator=(const GivesBack&) = delete;
};

}  // namespace trl::tensor
