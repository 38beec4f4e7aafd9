// Guesses the next ids of a sequence, and counts how often the guesses were right, whether they were computed
// or not. A function that finds no memory changes nothing.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "generate/lookup.h"

namespace trl::generate {

class Draft {
 public:
  // right: the share of ids that is taken to be right at the beginning.
  Draft(std::shared_ptr<Lookup> lookup, int64_t completion, double right);

  // Returns at most that many ids that may follow; valid until the next call of a function.
  std::span<const int32_t> next(int64_t most);
  // The sequence goes on with a token of its own.
  void follow(int32_t id);
  // Appends ids that were given. Cannot fail after make_room() for that many.
  void skip(std::span<const int32_t> ids);
  void make_room(int64_t ids) { lookup_->make_room(completion_, ids); }
  // The share of ids, lately, that was right after right ones.
  double right() const { return right_; }

 private:
  std::shared_ptr<Lookup> lookup_;
  int64_t completion_;
  std::vector<int32_t> guessed_;
  double right_;
};

}  // namespace trl::generate
