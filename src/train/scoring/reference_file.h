// The log-probabilities that a reference gives the targets of sequences, kept in one file and found by the
// digest of a sequence. The file appears whole; it is mapped, so that it takes no memory of the process.
//
// Layout, little-endian: 8 bytes "TRLREF01"; float32 values; entries {uint64 digest, first value, count} by
// ascending digest; then uint64 number of values, number of entries, XXH3 of all before these three.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace trl::train {

struct ReferenceEntry {
  uint64_t digest = 0, first = 0, count = 0;
};

class ReferenceFile {
 public:
  // Throws Error(not_found), Error(io), or Error(format) if this code did not write the file or it is
  // damaged.
  explicit ReferenceFile(const std::string& path);
  std::optional<std::span<const float>> find(uint64_t digest) const;  // none: it has no such sequence
  uint64_t sequences() const { return entries_; }

 private:
  ReferenceEntry entry(uint64_t index) const;
  base::MappedFile file_;
  uint64_t values_ = 0, entries_ = 0;
};

// Writes a ReferenceFile: body gets a function that takes the values of a sequence; of two with one digest
// the first counts. Throws Error(io).
using AddReference = std::function<void(uint64_t digest, std::span<const float> values)>;
void write_reference_file(const std::string& path, const std::function<void(const AddReference&)>& body,
                          const base::WriteFault* fault = nullptr);

}  // namespace trl::train
