// A constraint by a pattern, on the tokens of a vocabulary.
#pragma once
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "text/constraint/constraint.h"
#include "text/constraint/lazy_dfa.h"
#include "text/constraint/token_trie.h"

namespace trl::text {

class TokenConstraint final : public Constraint {
 public:
  // Bounds: bytes of states and of what may follow them, which are dropped and made again beyond, and places
  // looked at for the tokens after one text, for which a model and its other texts wait: about 50 ms. A
  // pattern whose states do not explode has less than a twentieth of them, and a new kind of place takes the
  // walk through the vocabulary, 4 to 7 ms for 152,000 tokens.
  static constexpr size_t kMostBytes = size_t{32} << 20;
  static constexpr uint64_t kMostWork = 2'000'000;
  static constexpr std::string_view kNoMemory = "out of memory";  // a reason of allowed()

  // Throws what Automaton throws.
  TokenConstraint(const PatternTree& tree, std::string_view key, std::shared_ptr<const TokenTrie> trie);

  Place start() noexcept override;
  std::shared_ptr<const AllowedIds> allowed(const Place& place, std::string_view& why) noexcept override;
  Place after(const Place& place, int32_t id) noexcept override;
  bool is_over(const Place& place) noexcept override;

 private:
  using State = LazyDfa::State;
  static const State& state_of(const Place& place) { return *static_cast<const State*>(place.get()); }
  std::shared_ptr<const AllowedIds> find_allowed(const State& state);
  std::vector<int32_t> walk(const State& state, bool longer);
  std::shared_ptr<const AllowedIds> keep(AllowedIds allowed);

  std::mutex mutex_;  // of all below
  LazyDfa dfa_;
  const std::shared_ptr<const TokenTrie> trie_;
  std::vector<uint32_t> stack_;  // states along a branch of the trie
  uint64_t most_work_ = 0;       // dfa_.work() up to which it is looked for ids
};

}  // namespace trl::text
