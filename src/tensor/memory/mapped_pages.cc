#include "tensor/memory/mapped_pages.h"

#include "tensor/memory/rehearsed_blocks.h"

namespace trl::tensor {

MappedPages::MappedPages(base::MemoryKind kind, int64_t bytes)
    : state_(bytes > 0 && Rehearsal::current() != nullptr ? Rehearsal::current()->state() : nullptr) {
  if (state_ != nullptr) number_ = state_->take(kind, bytes, kMappedPages);
}

MappedPages::~MappedPages() {
  if (state_ != nullptr) state_->give(number_);
}

}  // namespace trl::tensor
