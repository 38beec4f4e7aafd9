// Keeps the text of a completion to a form: says which tokens may follow, by the text so far.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace trl::text {

// The ids that may follow a text.
struct AllowedIds {
  std::vector<int32_t> few;     // ascending, if there are at most kFew; else
  std::vector<uint64_t> words;  // a bit for each id, in words of 64; ids beyond may not follow
  bool end = false;             // the text may end here
  static constexpr size_t kFew = 256;
  bool contains(int32_t id) const;
  bool empty() const { return few.empty() && words.empty(); }
};

// any thread. Nothing throws, so that it can be used across libraries.
class Constraint {
 public:
  virtual ~Constraint() = default;
  // A text so far; opaque and immutable.
  using Place = std::shared_ptr<const void>;
  virtual Place start() noexcept = 0;
  // null: `why`, a literal, says why it is not known.
  virtual std::shared_ptr<const AllowedIds> allowed(const Place& place, std::string_view& why) noexcept = 0;
  // null: the token may not follow, or there is no memory for what follows it.
  virtual Place after(const Place& place, int32_t id) noexcept = 0;
  // Whether the text must end here.
  virtual bool is_over(const Place& place) noexcept = 0;
};

}  // namespace trl::text
