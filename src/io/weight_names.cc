#include "io/weight_names.h"

#include <algorithm>

#include "io/safetensors.h"

namespace trl::io {

bool has_safetensors(const base::NamedFiles& directory) {
  return directory.has(kSingle) || directory.has(kIndex);
}

bool is_weight_file(std::string_view name) {
  if (name == kSingle || name == kIndex || name == kGgufFile) return true;
  // model-00001-of-00004.safetensors
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return std::ranges::equal(name, kPattern,
                            [](char c, char p) { return p == '#' ? c >= '0' && c <= '9' : c == p; });
}

}  // namespace trl::io
