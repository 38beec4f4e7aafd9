// Resident pages of mapped files. The memory counter does not include them; a rehearsal notes them.
#pragma once
#include "tensor/memory/rehearsal.h"

namespace trl::tensor {

// The stage under which MappedPages are noted.
inline constexpr std::string_view kMappedPages = "mapped";

// Notes this many bytes for its lifetime. Does nothing outside a rehearsal.
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
