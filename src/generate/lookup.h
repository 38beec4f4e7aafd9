// Prompt lookup (Saxena 2023): ids that may follow in a text because they followed the same ids before, in
// the text itself or in other completions of its prompt. Without tensors.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sampling.h"

namespace trl::generate {

class Lookup {
 public:
  // Completions of a prompt, which begin without ids.
  Lookup(std::span<const int32_t> prompt, int64_t completions, const engine::Speculation& options);

  // Adds an id to a completion. If there is no memory to find it again, it is there, and is not found.
  void append(int64_t completion, int32_t id);
  // So many more ids of a completion can be added without fail.
  void make_room(int64_t completion, int64_t ids);
  // Returns at most that many ids, which followed the longest sequence of ids, from most_ngram down to
  // least_ngram, that the completion ends with; of equally long ones the last.
  std::vector<int32_t> after(int64_t completion, int64_t most) const;

 private:
  // A sequence of ids ends before this place of a text: the prompt alone, or with a completion.
  struct Place {
    int32_t text = -1, end = 0;
  };
  // earlier: by id of the text's own, the place before it that has the same last ids.
  struct Text {
    std::vector<int32_t> ids;  // the prompt's are only in the first one
    std::vector<Place> earlier;
  };
  int64_t length(int32_t text) const;
  int32_t id(int32_t text, int64_t place) const;
  uint64_t hash(int32_t text, int64_t end) const;
  void note(int32_t text);
  int64_t alike(Place a, Place b) const;

  const engine::Speculation options_;
  int64_t prompt_ = 0;       // ids
  std::vector<Text> texts_;  // the prompt, and each completion
  std::unordered_map<uint64_t, Place> last_;
};

}  // namespace trl::generate
