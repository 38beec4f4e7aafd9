// A random life of a Scheduler, whose blocks hold what a model would have written into them; others may share
// its pool. Each act checks everything that the scheduler promises.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "generate/scheduler.h"
#include "generate/scheduler_life.h"

namespace trl::test {

class History {
 public:
  // What happened in some histories.
  struct Counts {
    int64_t steps = 0, rows = 0, finished = 0, cancelled = 0, preempted = 0, copies = 0, found = 0;
    int64_t failed = 0, extended = 0, taken_back = 0, crossed = 0, stolen = 0, deferred = 0, passed = 0;
    int64_t refused = 0, beside = 0, taken = 0, tentative = 0, accepted = 0;
  };

  // limits.blocks is that of the store.
  History(const Limits& limits, Store& store, uint32_t seed, Counts& counts)
      : limits_(limits),
        most_(limits.blocks * kCacheRows),
        store_(store),
        scheduler_(limits, store.pool),
        random_(seed),
        n_(counts) {
    for (std::vector<int32_t>& ids : beginnings_) ids = some_ids(1 + any(200));
    store_.histories.push_back(this);
  }
  ~History() { std::erase(store_.histories, this); }
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Something from outside, or nothing, and a step.
  void act() {
    if (one_in(3)) add();
    if (one_in(20)) cancel();
    if (one_in(40)) change_weights();
    if (one_in(4)) extend_one();
    if (one_in(20)) shrink();
    step();
  }
  // Until all sequences are over. Without anything from outside, each turn computes at least one row of the
  // oldest sequence that runs, for good.
  static void drain(Store& store) {
    store.may_refuse = false;
    store.pool->lift();
    const auto goes_on = [](const History* history) { return !history->lives_.empty(); };
    int64_t bound = 10;
    for (const History* history : store.histories) bound += history->rows_left();
    for (int64_t turns = 0; std::ranges::any_of(store.histories, goes_on); ++turns) {
      ASSERT_LT(turns, 2 * bound) << "a sequence starves";
      for (History* history : store.histories) history->go_on_alone();
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(store.pool->used(), 0);
    for (const History* history : store.histories) {
      EXPECT_TRUE(history->scheduler_.idle());
      EXPECT_EQ(history->scheduler_.waiting() + history->scheduler_.running(), 0);
    }
  }

 private:
  int64_t rows_left() const {
    int64_t rows = 0;
    for (const auto& [number, life] : lives_)
      rows += 2 * (std::ssize(life.ids) + life.left) + life.pauses * most_;
    return rows;
  }
  void go_on_alone() {
    if (!scheduler_.idle()) return compute(next());
    while (extend_one()) {
    }
    if (scheduler_.idle()) cancel();
  }

  int64_t any(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  bool one_in(int64_t count) { return any(count) == 0; }
  std::vector<int32_t> some_ids(int64_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = static_cast<int32_t>(any(1000));
    return ids;
  }

  void add() {
    std::vector<int32_t> ids = beginnings_[static_cast<size_t>(any(3))];
    if (one_in(2)) ids.resize(static_cast<size_t>(1 + any(std::ssize(ids))));
    const std::vector<int32_t> more = some_ids(any(100));
    ids.insert(ids.end(), more.begin(), more.end());
    ids.resize(static_cast<size_t>(std::min(std::ssize(ids), most_)));
    const auto apart = static_cast<uint64_t>(one_in(4) ? 1 : 0);
    const int64_t count = one_in(3) ? 1 + any(6) : 1, first = scheduler_.add(ids, count, apart);
    const int64_t length = std::ssize(ids);
    for (int64_t i = first; i < first + count; ++i) {
      Life& life = lives_[i];
      life.ids = ids;
      life.given = {{0, length}};
      life.apart = apart;
      life.arrival = store_.arrivals++;
      life.group = first;
      life.left = 1 + any(std::min<int64_t>(40, most_ + 1 - length));
      life.pauses = one_in(4) ? any(3) : 0;
      set_keys(life);
    }
  }
  void cancel() {
    if (lives_.empty()) return;
    auto life = lives_.begin();
    std::advance(life, any(std::ssize(lives_)));
    scheduler_.end(life->first);
    lives_.erase(life);
    ++n_.cancelled;
  }
  // Changes the weights of all keys, or of those of one number; the others stay.
  void change_weights() {
    const std::optional<uint64_t> apart =
        one_in(2) ? std::optional(static_cast<uint64_t>(any(2))) : std::nullopt;
    const auto is_concerned = [&](const Life& life) { return !apart || life.apart == *apart; };
    const auto blocks_of_others = [&] {
      std::vector<int32_t> all;
      for (const History* history : store_.histories)
        for (const auto& [number, life] : history->lives_)
          if (const auto own = history->scheduler_.blocks(number); !is_concerned(life))
            all.insert(all.end(), own.begin(), own.end());
      return all;
    };
    const std::vector<int32_t> before = blocks_of_others();
    store_.pool->recompute(apart);
    EXPECT_EQ(blocks_of_others(), before);
    if (!apart) {
      EXPECT_EQ(store_.pool->used() + store_.pool->known(), 0);
    }
    for (uint64_t i = 0; i < store_.weights.size(); ++i) store_.weights[i] += !apart || *apart == i;
    for (History* history : store_.histories)
      for (auto& [number, life] : history->lives_) {
        if (!is_concerned(life)) continue;
        EXPECT_TRUE(history->scheduler_.blocks(number).empty());
        history->set_keys(life);
        life.computed.reset();
      }
  }
  bool extend_one() {
    for (auto& [number, life] : lives_) {
      if (!life.paused || most_ - std::ssize(life.ids) < 2) continue;
      const int64_t before = std::ssize(life.ids);
      const std::vector<int32_t> more = some_ids(1 + any(std::min<int64_t>(90, most_ - before - 1)));
      life.ids.insert(life.ids.end(), more.begin(), more.end());
      life.given.emplace_back(before, std::ssize(life.ids));
      life.left = 1 + any(std::min<int64_t>(20, most_ + 1 - std::ssize(life.ids)));
      life.paused = false;
      --life.pauses;
      scheduler_.extend(number, more);
      lengthened(life, before);
      ++n_.extended;
      return true;
    }
    return false;
  }

  // Sometimes steps fail in the middle, and something happens before the next one.
  void step() {
    Scheduler::Step step = next();
    while (one_in(failures_)) {
      fail(step);
      if (one_in(3)) cancel();
      if (one_in(4)) add();
      if (one_in(4)) extend_one();
      if (one_in(16)) change_weights();
      if (one_in(4)) return;
      step = next();
    }
    compute(step);
  }
  Scheduler::Step next() {
    Scheduler::Step step = choose();
    while (!allocate(step)) step = choose();
    check_rows(step);
    check_beginnings(step);
    check_order();
    check_shares();
    check_pool();
    return step;
  }
  // false: memory is missing, and the step was not computed.
  bool allocate(const Scheduler::Step& step) {
    for (const Scheduler::Work& work : step.work) {
      const auto before = static_cast<size_t>(work.first / kCacheRows);
      for (const int32_t id : scheduler_.blocks(work.sequence).subspan(before)) {
        const auto place = static_cast<size_t>(id);
        if (store_.allocated[place]) continue;
        EXPECT_FALSE(store_.pool->restricted());
        if (store_.may_refuse && one_in(20)) {
          refuse(step);
          return false;
        }
        store_.allocated[place] = true;
      }
    }
    return true;
  }
  void refuse(const Scheduler::Step& step) {
    ++n_.refused;
    store_.pool->restrict_to([this](int32_t id) { return store_.allocated[static_cast<size_t>(id)]; });
    undo_copies(step);
    scheduler_.drop_missing();
    for (const auto& [number, life] : lives_)
      for (const int32_t id : scheduler_.blocks(number))
        EXPECT_TRUE(store_.allocated[static_cast<size_t>(id)]);
  }
  void shrink() {
    for (size_t id = 0; id < store_.allocated.size(); ++id)
      if (!store_.pool->in_use(static_cast<int32_t>(id))) store_.allocated[id] = false;
    store_.pool->lift();
  }
  // Gives some that decode tentative ids, of which none, some or all are right.
  void propose() {
    if (!proposes_) return;
    for (const auto& [number, life] : lives_) {
      if (!scheduler_.decodes(number) || one_in(3)) continue;
      std::vector<int32_t> ids;
      uint64_t key = life.keys.back();
      for (int64_t right = any(6); right > 0; --right) {
        ids.push_back(id_after(key, number));
        key = mixed(key, static_cast<uint64_t>(ids.back()));
      }
      const std::vector<int32_t> wrong = some_ids(any(4));
      ids.insert(ids.end(), wrong.begin(), wrong.end());
      scheduler_.propose(number, ids);
    }
  }
  Scheduler::Step choose() {
    propose();
    for (auto& [number, life] : lives_) {
      life.held = !scheduler_.blocks(number).empty();
      life.works = false;
      if (!life.held && life.computed) {
        ++n_.stolen;
        life.computed.reset();
      }
      life.next = life.computed.value_or(life.held ? life.begun_at : 0);
    }
    const bool may_wait =
        scheduler_.idle() || store_.pool->restricted() || (others_hold() && !has_the_oldest());
    const std::vector<Place> before = all_that_run();
    Scheduler::Step step = scheduler_.next();
    for (const Scheduler::Work& work : step.work) lives_.at(work.sequence).begun_at = work.first;
    EXPECT_TRUE(may_wait || !step.empty()) << "nothing moves";
    if (!step.empty()) check_ages(before);
    return step;
  }
  // A sequence of some history.
  using Place = std::pair<const History*, int64_t>;
  std::vector<Place> all_that_run() const {
    std::vector<Place> all;
    for (const History* history : store_.histories)
      for (const auto& [number, life] : history->lives_)
        if (history->runs(number, life)) all.emplace_back(history, number);
    return all;
  }
  // Whether the oldest sequence of all is its own, and waits for none that is younger.
  bool has_the_oldest() const {
    const History* owner = nullptr;
    int64_t oldest = INT64_MAX;
    bool is_running = false;
    for (const History* history : store_.histories) {
      for (const auto& [number, life] : history->lives_) {
        if (life.paused || life.arrival > oldest) continue;
        owner = history;
        oldest = life.arrival;
        is_running = history->runs(number, life);
      }
    }
    return owner == this && (is_running || scheduler_.running() == 0);
  }
  // If some gave blocks back for the step, they are the youngest of all histories.
  void check_ages(const std::vector<Place>& before) {
    int64_t lost = INT64_MAX;
    for (const auto& [history, number] : before) {
      const Life& life = history->lives_.at(number);
      if (history->runs(number, life)) continue;
      lost = std::min(lost, life.arrival);
      n_.taken += history != this;
    }
    for (const auto& [history, number] : all_that_run())
      EXPECT_LT(history->lives_.at(number).arrival, lost) << "a younger one keeps its blocks";
  }
  bool others_hold() const {
    std::vector<bool> own(store_.memory.size());
    for (const auto& [number, life] : lives_)
      for (const int32_t block : scheduler_.blocks(number)) own[static_cast<size_t>(block)] = true;
    return store_.pool->used() > std::ranges::count(own, true);
  }
  // A sequence whose block was copied computes the rows of that block again.
  void undo_copies(const Scheduler::Step& step) {
    for (auto& [number, life] : lives_)
      for (const Scheduler::Copy& copy : step.copies)
        if (std::ranges::count(scheduler_.blocks(number), copy.to) > 0)
          *life.computed -= *life.computed % kCacheRows;
  }
  // Perhaps all copies are made and keys of some layers written.
  void fail(const Scheduler::Step& step) {
    ++n_.failed;
    undo_copies(step);
    if (one_in(2)) return;
    copy(step);
    for (const Scheduler::Work& work : step.work)
      for (int64_t p = work.first; p < work.first + work.count; ++p) cell(work.sequence, p) = 0;
  }
  void compute(const Scheduler::Step& step) {
    copy(step);
    for (const Scheduler::Work& work : step.work) {
      const Life& life = lives_.at(work.sequence);
      for (int64_t p = work.first; p < work.first + work.count; ++p) {
        EXPECT_EQ(scheduler_.pool().users(block(work.sequence, p)), 1) << "a shared block is written";
        cell(work.sequence, p) = key_at(work.sequence, life, p);
      }
    }
    for (const Scheduler::Work& work : step.work)
      check_keys(work.sequence, work.first + work.count - work.tentative);
    scheduler_.done(step);
    ++n_.steps;
    for (const Scheduler::Work& work : step.work) {
      const int64_t computed = work.first + work.count - work.tentative;
      lives_.at(work.sequence).computed = computed;
      n_.rows += work.count;
      n_.tentative += work.tentative;
      const auto ids = scheduler_.tentative(work.sequence).first(static_cast<size_t>(work.tentative));
      const std::vector<int32_t> tentative(ids.begin(), ids.end());
      for (const int64_t number : work.ready) {
        Life& life = lives_.at(number);
        life.computed = computed;
        life.follows = false;
        check_keys(number, computed);
        go_on(number, life, tentative);
      }
    }
  }
  // The key of a position, which may be one of a tentative id.
  uint64_t key_at(int64_t number, const Life& life, int64_t position) const {
    const int64_t length = std::ssize(life.ids);
    if (position < length) return life.keys[static_cast<size_t>(position)];
    uint64_t key = life.keys.back();
    for (const int32_t id : scheduler_.tentative(number).first(static_cast<size_t>(position + 1 - length)))
      key = mixed(key, static_cast<uint64_t>(id));
    return key;
  }
  void copy(const Scheduler::Step& step) {
    for (const Scheduler::Copy& copy : step.copies)
      store_.memory[static_cast<size_t>(copy.to)] = store_.memory[static_cast<size_t>(copy.from)];
    n_.copies += std::ssize(step.copies);
  }
  static int32_t id_after(uint64_t key, int64_t number) {
    return static_cast<int32_t>(mixed(key, static_cast<uint64_t>(number)) % 1000);
  }
  // A sequence that is ready gets a token, and another one for each tentative id that was right.
  void go_on(int64_t number, Life& life, const std::vector<int32_t>& tentative) {
    for (const int32_t guess : tentative) {
      const bool right = guess == id_after(life.keys.back(), number);
      n_.accepted += right;
      *life.computed += right;
      if (!add_token(number, life) || !right) return;
      check_keys(number, *life.computed);
    }
    add_token(number, life);
  }
  // Returns whether the sequence goes on.
  bool add_token(int64_t number, Life& life) {
    const int32_t id = id_after(life.keys.back(), number);
    life.ids.push_back(id);
    scheduler_.append(number, id);
    lengthened(life, std::ssize(life.ids) - 1);
    if (--life.left > 0) return true;
    ++n_.finished;
    if (life.pauses > 0) {
      life.paused = true;
      scheduler_.pause(number);
    } else {
      scheduler_.end(number);
      lives_.erase(number);
    }
    return false;
  }

  int32_t block(int64_t number, int64_t position) const {
    return scheduler_.blocks(number)[static_cast<size_t>(position / kCacheRows)];
  }
  uint64_t& cell(int64_t number, int64_t position) {
    return store_
        .memory[static_cast<size_t>(block(number, position))][static_cast<size_t>(position % kCacheRows)];
  }
  // Keys from position `begin` on.
  void set_keys(Life& life, int64_t begin = 0) {
    const int64_t length = std::ssize(life.ids);
    uint64_t chain = begin > 0 ? life.keys.back() : mixed(life.apart, store_.weights[life.apart]);
    life.keys.resize(static_cast<size_t>(begin));
    for (int64_t p = begin; p < length; ++p) {
      chain = mixed(chain, static_cast<uint64_t>(life.ids[static_cast<size_t>(p)]));
      const int64_t reach = reach_of(life, p);
      if (reach > limits_.common_length)
        chain = mixed(chain, limits_.recompute_longer ? 1u : static_cast<uint64_t>(reach));
      life.keys.push_back(chain);
    }
  }
  int64_t reach_of(const Life& life, int64_t position) const {
    if (limits_.recompute_longer) return std::ssize(life.ids);
    for (const auto& [begin, end] : life.given)
      if (begin <= position && position < end) return end;
    return position + 1;
  }
  void lengthened(Life& life, int64_t before) {
    const bool crosses = before <= limits_.common_length && std::ssize(life.ids) > limits_.common_length;
    n_.crossed += crosses;
    if (!crosses || !limits_.recompute_longer) return set_keys(life, before);
    set_keys(life);
    life.computed.reset();
  }

  // Each row of a step is the next one of its sequence.
  void check_rows(const Scheduler::Step& step) {
    int64_t rows = 0;
    bool has_tentative = false, has_chunk = false;
    for (const Scheduler::Work& work : step.work) {
      const int64_t number = work.sequence, end = work.first + work.count - work.tentative;
      Life& life = lives_.at(number);
      EXPECT_FALSE(life.paused || life.works);
      life.works = true;
      life.next = work.first;
      life.rows = work.count - work.tentative;
      EXPECT_GT(life.rows, 0);
      rows += work.count;
      has_tentative |= work.tentative > 0;
      has_chunk |= life.rows > 1;
      const auto ids = scheduler_.ids(number);
      EXPECT_TRUE(std::ranges::equal(ids, life.ids));
      ASSERT_LE(end, std::ssize(ids));
      ASSERT_GE(std::ssize(scheduler_.blocks(number)), Scheduler::blocks_of(end + work.tentative));
      ASSERT_LE(work.tentative, std::ssize(scheduler_.tentative(number)));
      if (work.tentative > 0) {
        EXPECT_EQ(life.rows, 1);
        EXPECT_LE(end + work.tentative, limits_.common_length);
      }
      EXPECT_EQ(scheduler_.reach(number, work.first), reach_of(life, work.first));
      if (!life.computed) {
        EXPECT_EQ(work.first % kCacheRows, 0);
        n_.found += work.first > 0;
        EXPECT_TRUE(work.first == 0 || limits_.prefix_cache);
      } else {
        EXPECT_EQ(work.first, *life.computed);
      }
      check_ready(work, life, end == std::ssize(ids));
    }
    EXPECT_FALSE(has_tentative && has_chunk);
    EXPECT_LE(rows, limits_.step_tokens);
    EXPECT_LE(std::ssize(step.work), limits_.step_sequences);
  }
  // All of a group that wait for it go on with it.
  void check_ready(const Scheduler::Work& work, const Life& life, bool whole) {
    std::vector<int64_t> ready;
    if (whole) {
      for (const auto& [number, other] : lives_)
        if (number == work.sequence || (other.follows && other.group == life.group)) ready.push_back(number);
    }
    EXPECT_EQ(work.ready, ready);
  }
  // Whole blocks with which both begin, and of which the first one can share those that the other computes.
  int64_t alike(const Life& life, const Life& other) const {
    const int64_t length = std::ssize(life.ids), others = std::ssize(other.ids);
    if (!limits_.prefix_cache || std::max(length, others) > limits_.common_length) return 0;
    int64_t blocks = 0;
    const auto last = [&] { return static_cast<size_t>((blocks + 1) * kCacheRows - 1); };
    while ((blocks + 1) * kCacheRows <= std::min(length - 1, others) &&
           life.keys[last()] == other.keys[last()])
      ++blocks;
    return blocks;
  }
  bool runs(int64_t number, const Life& life) const {
    return !life.paused && !scheduler_.blocks(number).empty();
  }
  // None begins with a block that another one computes.
  void check_beginnings(const Scheduler::Step& step) {
    for (const Scheduler::Work& work : step.work) {
      const Life& life = lives_.at(work.sequence);
      if (life.held) continue;
      const int64_t first = work.first / kCacheRows;
      for (const auto& [number, other] : lives_) {
        if (number == work.sequence || !runs(number, other) || other.next / kCacheRows > first) continue;
        EXPECT_LE(alike(life, other), first) << work.sequence << " computes what " << number << " computes";
      }
    }
  }
  // Whether one that runs, or did until the step was chosen, computes what the sequence begins with.
  bool may_be_deferred(const Life& life) const {
    return std::ranges::any_of(lives_, [&](const auto& one) {
      const auto& [number, other] = one;
      const bool ran = !other.paused && other.held;
      return &other != &life && (ran || runs(number, other)) && other.next / kCacheRows < alike(life, other);
    });
  }
  // First come, first begun, besides those that are deferred; if blocks run out, those of paused sequences
  // go, and then the youngest's.
  void check_order() {
    int64_t first_waiting = INT64_MAX, oldest_preempted = INT64_MAX;
    int64_t last_begun = -1, last_running = -1, last_deferred = -1;
    bool paused_hold = false;
    std::optional<int64_t> group;
    for (auto& [number, life] : lives_) {
      const bool holds = !scheduler_.blocks(number).empty(), follows = life.follows && group == life.group;
      if (life.follows) group = life.group;
      if (life.paused) {
        paused_hold |= holds;
        n_.taken_back += life.held && !holds;
      } else if (holds) {
        last_running = number;
        if (!life.held) last_begun = number;
        n_.passed += !life.held && last_deferred >= 0;
      } else if (!follows) {
        const bool deferred = !life.held && may_be_deferred(life);
        if (!deferred) first_waiting = std::min(first_waiting, number);
        if (deferred) last_deferred = number;
        n_.deferred += deferred;
        if (life.held) {
          oldest_preempted = std::min(oldest_preempted, number);
          ++n_.preempted;
        }
      }
      if (!holds) life.computed.reset();
    }
    EXPECT_LT(last_begun, first_waiting) << "an older one waits";
    if (oldest_preempted < INT64_MAX) {
      EXPECT_LT(last_running, oldest_preempted) << "a younger one keeps its blocks";
      EXPECT_FALSE(paused_hold);
    }
  }
  // Rows that a sequence has to compute; nothing: it has begun, and nothing of it was computed yet.
  static std::optional<int64_t> rows_to_compute(const Life& life) {
    if (!life.works && !life.computed) return std::nullopt;
    return std::ssize(life.ids) - (life.works ? life.next : *life.computed);
  }
  // Those that decode, with one row to compute, are served in the order in which they came, and so are
  // chunks. The oldest chunk leaves to younger ones that decode half of the rows that it finds, and they
  // leave it the other half.
  void check_shares() {
    int64_t first_chunk = INT64_MAX, idle_decoding = INT64_MAX, idle_chunk = INT64_MAX;
    int64_t last_chunk = -1, last_working = -1, before = 0, beside = 0;  // those that decode
    bool cut = false;
    for (const auto& [number, life] : lives_) {
      if (!runs(number, life)) continue;
      const std::optional<int64_t> left = rows_to_compute(life);
      if (!life.works) {
        int64_t& idle = left == 1 ? idle_decoding : idle_chunk;
        idle = std::min(idle, number);
        continue;
      }
      last_working = number;
      if (left == 1) {
        ++(first_chunk == INT64_MAX ? before : beside);
        continue;
      }
      if (first_chunk == INT64_MAX) cut = life.rows < *left;
      first_chunk = std::min(first_chunk, number);
      last_chunk = number;
    }
    EXPECT_LT(last_working, idle_decoding) << "an older one that decodes gets no row";
    EXPECT_LT(last_chunk, idle_chunk) << "an older chunk gets no row";
    if (idle_chunk < first_chunk) {
      EXPECT_LT(last_working, idle_chunk) << "the oldest chunk gets no row";
    }
    if (first_chunk == INT64_MAX) return;
    const int64_t rows = limits_.step_tokens - before, places = limits_.step_sequences - before;
    const int64_t share = std::min(rows / 2, places - 1);
    if (idle_decoding < INT64_MAX) {
      EXPECT_GE(beside, share) << "a chunk takes more than its share";
    }
    if (cut) {
      EXPECT_LE(beside, share) << "a chunk gets less than its share";
    }
    n_.beside += cut && beside > 0;
  }
  // Each block has as many users as sequences that name it.
  void check_pool() {
    std::vector<int64_t> users(store_.memory.size());
    const generate::BlockPool& pool = *store_.pool;
    for (const History* history : store_.histories) {
      for (const auto& [number, life] : history->lives_) {
        for (const int32_t block : history->scheduler_.blocks(number)) {
          ASSERT_TRUE(pool.in_use(block));
          ++users.at(static_cast<size_t>(block));
        }
      }
    }
    int64_t used = 0;
    for (size_t block = 0; block < users.size(); ++block) {
      if (users[block] == 0) continue;
      ++used;
      EXPECT_EQ(pool.users(static_cast<int32_t>(block)), users[block]);
    }
    EXPECT_EQ(pool.used(), used);
    if (pool.restricted())
      EXPECT_LE(pool.left() + used, pool.most());
    else
      EXPECT_EQ(pool.left(), limits_.blocks - used);
    EXPECT_LE(used + pool.known(), limits_.blocks);
  }
  // The sequence sees the keys of its own ids.
  void check_keys(int64_t number, int64_t end) {
    const Life& life = lives_.at(number);
    for (int64_t p = 0; p < end; p += kCacheRows) {
      const Store::Cells& cells = store_.memory[static_cast<size_t>(block(number, p))];
      const auto keys = life.keys.begin() + p;
      EXPECT_TRUE(std::equal(keys, keys + std::min(kCacheRows, end - p), cells.begin()))
          << "sequence " << number << " sees other keys from position " << p << " on";
    }
  }

  Limits limits_;
  int64_t most_;
  Store& store_;
  Scheduler scheduler_;
  std::mt19937 random_;
  Counts& n_;
  int64_t failures_ = one_in(4) ? 3 : 15;  // one in this many steps
  bool proposes_ = one_in(2);
  std::array<std::vector<int32_t>, 3> beginnings_;
  std::map<int64_t, Life> lives_;
};

}  // namespace trl::test
