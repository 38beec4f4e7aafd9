#include "generate/block_pool.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace trl::generate {

namespace {
// Memory that was missing may be there again after so many steps.
constexpr int64_t kPatience = 16;
}  // namespace

// FNV-1a over the words (Fowler, Noll & Vo).
size_t ContentHash::operator()(const Content& content) const noexcept {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  add(content.before);
  for (const int32_t id : content.ids) add(static_cast<uint32_t>(id));
  return static_cast<size_t>(hash ^ (hash >> 32));
}

std::optional<int32_t> BlockPool::take() {
  int32_t block = 0;
  if (!free_.empty()) {
    std::ranges::pop_heap(free_, std::greater());
    block = free_.back();
    free_.pop_back();
  } else if (std::ssize(blocks_) < limit_ && !restricted()) {
    block = add_block();
  } else if (!unused_.empty()) {
    block = unused_.front();
    forget(blocks_[static_cast<size_t>(block)]);
  } else {
    return std::nullopt;
  }
  blocks_[static_cast<size_t>(block)].users = 1;
  ++used_;
  return block;
}

// Makes room for the number of each block in both lists of free ones, so that free() allocates nothing.
int32_t BlockPool::add_block() {
  if (blocks_.size() == blocks_.capacity()) blocks_.reserve(std::max<size_t>(64, 2 * blocks_.size()));
  for (std::vector<int32_t>* const numbers : {&free_, &out_of_reach_}) numbers->reserve(blocks_.capacity());
  blocks_.emplace_back();
  return static_cast<int32_t>(blocks_.size() - 1);
}

void BlockPool::share(int32_t number) {
  Block& block = blocks_[static_cast<size_t>(number)];
  if (block.users++ > 0) return;
  ++used_;
  held_.splice(held_.end(), unused_, block.place);
}

void BlockPool::drop(int32_t number) {
  Block& block = blocks_[static_cast<size_t>(number)];
  if (--block.users > 0) return;
  --used_;
  if (block.known) return unused_.splice(unused_.end(), held_, block.place);
  free(number);
}

void BlockPool::free(int32_t number) {
  if (!may_have(number)) return out_of_reach_.push_back(number);
  free_.push_back(number);
  std::ranges::push_heap(free_, std::greater());
}

uint64_t BlockPool::hold(int32_t number, Content content, uint64_t apart) {
  Block& block = blocks_[static_cast<size_t>(number)];
  if (block.known) return block.number;  // another sequence that has it was first
  std::list<int32_t> held = {number};    // allocated before the content is known: nothing fails after that
  const auto [place, added] = known_.try_emplace(std::move(content), number);
  if (!added) return blocks_[static_cast<size_t>(place->second)].number;
  block.content = place;
  block.place = held.begin();
  held_.splice(held_.end(), held);
  block.known = true;
  block.apart = apart;
  return block.number = contents_++;
}

std::optional<BlockPool::Found> BlockPool::share(const Content& content) {
  const auto place = known_.find(content);
  if (place == known_.end()) return std::nullopt;
  share(place->second);
  return Found{place->second, blocks_[static_cast<size_t>(place->second)].number};
}

void BlockPool::forget(Block& block) {
  (block.users > 0 ? held_ : unused_).erase(block.place);
  known_.erase(block.content);
  block.known = false;
}

void BlockPool::forget(std::optional<uint64_t> apart) {
  for (int32_t number = 0; number < std::ssize(blocks_); ++number) {
    Block& block = blocks_[static_cast<size_t>(number)];
    if (!block.known || (apart && block.apart != *apart)) continue;
    forget(block);
    if (block.users == 0) free(number);
  }
}

void BlockPool::restrict_to(std::function<bool(int32_t)> has_memory) {
  lift();
  has_memory_ = std::move(has_memory);
  restricted_at_ = steps_;
  std::erase_if(free_, [this](int32_t number) {
    if (may_have(number)) return false;
    out_of_reach_.push_back(number);
    return true;
  });
  std::ranges::make_heap(free_, std::greater());
}

void BlockPool::lift() {
  has_memory_ = nullptr;
  for (const int32_t number : out_of_reach_) free(number);
  out_of_reach_.clear();
}

void BlockPool::count_step() {
  ++steps_;
  if (restricted() && steps_ - restricted_at_ >= kPatience) lift();
}

int64_t BlockPool::most() const {
  if (!restricted()) return limit_;
  int64_t count = 0;
  for (int32_t number = 0; number < std::ssize(blocks_); ++number) count += has_memory_(number);
  return count;
}

bool BlockPool::ask_others(const BlockHolder* asking, bool running) {
  for (BlockHolder* const holder : holders_)
    if (holder != asking && (holder->give_paused() || (running && holder->give_youngest()))) return true;
  return false;
}

bool BlockPool::take_from_younger(int64_t arrival) {
  BlockHolder* last = nullptr;
  for (BlockHolder* const holder : holders_) {
    if (holder->youngest() <= arrival) continue;
    last = holder;
    arrival = holder->youngest();
  }
  return last != nullptr && last->give_youngest();
}

// Returns how many blocks take() could give if all sequences that came later gave theirs back.
int64_t BlockPool::left_without(int64_t arrival) const {
  std::unordered_map<int32_t, int64_t> uses;
  for (const BlockHolder* const holder : holders_)
    for (const int32_t number : holder->blocks_after(arrival)) ++uses[number];
  return left() + std::ranges::count_if(uses, [this](const auto& use) {
           return users(use.first) == use.second && may_have(use.first);
         });
}

bool BlockPool::make_room(int64_t wanted, int64_t arrival) {
  if (wanted > left() && wanted > left_without(arrival)) return false;
  while (wanted > left() && take_from_younger(arrival)) {
  }
  return true;
}

void BlockPool::recompute(std::optional<uint64_t> apart) {
  for (BlockHolder* const holder : holders_) holder->drop_keys(apart);
  forget(apart);
}

}  // namespace trl::generate
