// Pages of mapped files that are resident. The memory counter does not have them; a rehearsal notes them.
#pragma once
#include "tensor/memory/rehearsal.h"

namespace trl::tensor {

// The stage of what MappedPages notes.
inline constexpr std::string_view kMappedPages = "mapped";

// So many bytes, while this lives. Nothing without a rehearsal.
class MappedPages {
 public:
  MappedPages(base::MemoryKind kind, int64_t bytes);
  ~MappedPages();
  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;

 private:
  const std::shared_ptr<Rehearsal::State> state_;
  size_t number_ = 0;
};

}  // namespace trl::tensor
