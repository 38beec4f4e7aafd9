// Tensors whose bytes pass through the one memory counter. Every large buffer of the engine is allocated
// here.
#pragma once
#include <ATen/ATen.h>

#include "base/memory/memory.h"
#include "engine/engine.h"

namespace trl::tensor {

using base::MemoryKind;

// Called once by entry/ (and by tests) before any tensor is made; null: a counter of the engine's own without
// limit.
void set_host(engine::Host* host);

// Freed blocks of activations and workspace are kept for the next request of about their size, since the
// kernel's page faults cost as much as a small kernel of ours. They stay charged (as workspace), never raise
// the peak above what it would be without them, give way when the limit is reached, and go when no tensor is
// left. This gives them back now.
void trim();

// Whether the host sets a limit to what is counted.
bool has_memory_limit();

// Uninitialised, contiguous, 64-byte aligned CPU memory. Throws Error(out_of_memory) when the limit would be
// passed. On another device: libtorch's memory, which is not the host's and not counted.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, MemoryKind kind, at::Device device = at::kCPU);
at::Tensor zeros(at::IntArrayRef sizes, at::ScalarType type, MemoryKind kind, at::Device device = at::kCPU);
at::Tensor empty_like(const at::Tensor& tensor, MemoryKind kind);  // on its device

}  // namespace trl::tensor
