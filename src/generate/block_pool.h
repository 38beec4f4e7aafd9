// Which blocks of the cache of keys and values are in use, by number: a fixed budget, counts of users, and
// the contents of full blocks, by which sequences that begin alike share them. Without tensors:
// model::KvMemory has the memory of a block.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace trl::generate {

// The tokens of a full block and all that precedes them. before: the content() of the block before it, or a
// number that tells apart whatever else keys depend on (weights, an adapter).
struct Content {
  uint64_t before = 0;
  std::vector<int32_t> ids;
  bool operator==(const Content&) const = default;
};
struct ContentHash {
  size_t operator()(const Content& content) const noexcept;
};

// Somebody who has blocks of a pool, and gives them up when others need them.
class BlockHolder {
 public:
  virtual bool give_paused() = 0;        // blocks that nothing is computed with; false: it has none
  virtual bool give_youngest() = 0;      // those of its youngest sequence; false: it has none
  virtual int64_t youngest() const = 0;  // when that one came: BlockPool::arrive(); -1: it has none
  // The blocks of its sequences that came later than this, each as often as they use it.
  virtual std::vector<int32_t> blocks_after(int64_t arrival) const = 0;
  // The keys and values of the sequences with this number in Content::before, or of all, are of no use any
  // more.
  virtual void drop_keys(std::optional<uint64_t> apart) = 0;

 protected:
  ~BlockHolder() = default;
};

class BlockPool {
 public:
  explicit BlockPool(int64_t limit) : limit_(limit) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // A block with one user; nothing: all have users. A block that has none but a known content is given away
  // last, the least recently used first.
  std::optional<int32_t> take();
  void share(int32_t block);
  // Its content stays known as long as nobody takes the block. Allocates nothing.
  void drop(int32_t block);
  int64_t users(int32_t block) const { return blocks_[static_cast<size_t>(block)].users; }

  // Names the content of a full block. Returns its number in Content::before. If another block
  // holds the same, this one remains unknown. apart: the number in Content::before of the first block.
  uint64_t hold(int32_t block, Content content, uint64_t apart);
  struct Found {
    int32_t block;
    uint64_t content;
  };
  // Shares the block that holds this.
  std::optional<Found> share(const Content& content);
  void forget(std::optional<uint64_t> apart = {});  // the contents with this number, or all

  void join(BlockHolder* holder) { holders_.push_back(holder); }
  void leave(BlockHolder* holder) { std::erase(holders_, holder); }
  // Asks everybody else for blocks, also for those that they compute with if `running`.
  bool ask_others(const BlockHolder* asking, bool running);
  // Numbers the sequences of all holders in the order in which they came.
  int64_t arrive() { return arrivals_++; }
  // Takes the blocks of the youngest sequence that anybody has, if it came later than this one.
  bool take_from_younger(int64_t arrival);
  // Takes blocks of sequences that came later until so many are left. false: they have too few, and keep
  // them.
  bool make_room(int64_t wanted, int64_t arrival);
  void recompute(std::optional<uint64_t> apart = {});  // the weights behind these keys changed
  void raise_limit(int64_t limit) { limit_ = std::max(limit_, limit); }
  // Memory for more blocks is missing: take() gives only those that have some, for some steps or until
  // lift().
  void restrict_to(std::function<bool(int32_t)> has_memory);
  void lift();
  bool restricted() const { return has_memory_ != nullptr; }
  bool may_have(int32_t block) const { return !restricted() || has_memory_(block); }
  // Steps that all holders have computed, for those that wait for blocks.
  int64_t steps() const { return steps_; }
  void count_step();

  int64_t limit() const { return limit_; }
  int64_t used() const { return used_; }                                  // blocks that have users
  int64_t known() const { return static_cast<int64_t>(unused_.size()); }  // others whose content is known
  int64_t left() const {                                                  // blocks that take() can give
    return restricted() ? std::ssize(free_) + known() : limit_ - used_;
  }
  int64_t most() const;  // that can have users at once
  // Whether it has users, or its content is known.
  bool in_use(int32_t block) const {
    const auto place = static_cast<size_t>(block);
    return place < blocks_.size() && (blocks_[place].users > 0 || blocks_[place].known);
  }

 private:
  struct Block {
    int64_t users = 0;
    std::unordered_map<Content, int32_t, ContentHash>::const_iterator content;
    bool known = false;
    uint64_t number = 0, apart = 0;      // of its content
    std::list<int32_t>::iterator place;  // in held_ or unused_, if it is known
  };
  int32_t add_block();
  void forget(Block& block);
  void free(int32_t number);
  int64_t left_without(int64_t arrival) const;

  int64_t limit_, used_ = 0, steps_ = 0, arrivals_ = 0;
  int64_t restricted_at_ = 0;  // steps_ then
  std::function<bool(int32_t)> has_memory_;
  std::vector<BlockHolder*> holders_;
  uint64_t contents_ = uint64_t{1} << 32;  // contents numbered so far, above all numbers of callers
  std::vector<Block> blocks_;
  std::vector<int32_t> free_;          // a heap, the smallest on top
  std::vector<int32_t> out_of_reach_;  // others that are free, but have no memory
  std::list<int32_t> unused_;          // known blocks without users, the least recently used first
  std::list<int32_t> held_;            // known blocks with users
  std::unordered_map<Content, int32_t, ContentHash> known_;
};

}  // namespace trl::generate
