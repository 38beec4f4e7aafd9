// Which rows of which sequences are computed next, in which blocks: continuous batching (Yu et al. 2022,
// "Orca") over blocks (Kwon et al. 2023, "PagedAttention"). Without tensors. First come, first served, by all
// schedulers that share a pool: if blocks run out, the youngest sequence gives its own back, and is computed
// again later. Sequences that decode may have tentative ids, whose rows are computed if a step has room for
// them; those that turn out to be right save a step each. Two exceptions to the order:
// - A sequence whose next whole block is being computed by another one waits for it while younger ones begin.
// - Sequences with one row to compute, such as those that decode, go on beside a chunk of an older one, which
//   leaves them up to half of the rows.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "generate/block_pool.h"

namespace trl::generate {

struct Limits {
  int64_t blocks = 1;
  int64_t step_tokens = 512;  // rows of a step; at least 1
  int64_t step_sequences = 256;
  bool prefix_cache = true;
  // Keys depend on the ids, their positions and the adapter, if a sequence is at most this long. Those of a
  // longer one also depend on reach(); if recompute_longer, they all do, on the present length.
  int64_t common_length = INT64_MAX;
  bool recompute_longer = false;
};

class Scheduler final : public BlockHolder {
 public:
  explicit Scheduler(const Limits& limits) : Scheduler(limits, std::make_shared<BlockPool>(limits.blocks)) {}
  // Shares the pool with others, who all compute with the same weights. limits.blocks is not read.
  Scheduler(const Limits& limits, std::shared_ptr<BlockPool> pool);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Waits from here on. `count` sequences begin with these ids, and their rows are computed once. apart: a
  // number below 2^32 that tells apart whatever keys depend on besides ids. Returns the first one's number;
  // the others follow. The blocks of one must fit into the limit: see blocks_of(). whole: all rows are
  // computed, and no block of others is used.
  int64_t add(std::span<const int32_t> ids, int64_t count, uint64_t apart, bool whole = false);
  static int64_t blocks_of(int64_t length);
  // The number of sequences of `length` tokens that can run at once in so many blocks, `count` of which begin
  // with the same prompt of `prompt` tokens. The last token of each is not computed.
  static int64_t sequences_in(int64_t blocks, int64_t prompt, int64_t length, int64_t count);

  struct Work {
    int64_t sequence;
    int64_t first, count;  // positions
    // Of these, the last ones, whose ids are tentative: the sequence continues from each of them, too, if all
    // up to it turn out to be right.
    int64_t tentative = 0;
    // Sequences that continue from the last of these positions: this one, and others of one prompt. Empty:
    // more of its ids follow.
    std::vector<int64_t> ready;
  };
  struct Copy {
    int32_t from, to;
  };
  struct Step {
    std::vector<Work> work;
    std::vector<Copy> copies;  // of whole blocks, before the rows are computed
    bool empty() const { return work.empty(); }
  };
  // Chooses the rows of the next step. Nothing has been computed until done(): after an error the next call
  // gives rows for the same sequences. Empty although not idle(): others hold the blocks. If they have
  // computed nothing by the next call, this one takes blocks from them.
  Step next();
  void done(const Step& step);
  // Instead of computing a step, after the pool was restricted: sequences drop blocks without memory.
  void drop_missing();

  // The following functions take sequences that are not over.
  // Whether the sequence has one row to compute, and may have tentative ids.
  bool decodes(int64_t sequence) const;
  // Ids that may follow in a sequence that decodes, in place of those it had: their rows are computed in the
  // next step if it computes no prompt, has rows left for them, and blocks that nobody else has.
  void propose(int64_t sequence, std::span<const int32_t> ids);
  // One that is ready; it goes on. If the id is a tentative one whose row was computed, it is ready again.
  void append(int64_t sequence, int32_t id);
  void pause(int64_t sequence);  // one that is ready; it keeps its blocks while nobody needs them
  void extend(int64_t sequence, std::span<const int32_t> ids);  // a paused one; it goes on
  void end(int64_t sequence);                                   // any; its blocks are given back
  // Any: what it computes from here on depends on `apart`. Keys that it has stay, and it shares none with
  // others until it has given all back.
  void move(int64_t sequence, uint64_t apart);
  void recompute() { pool_->recompute(); }
  void drop_keys(std::optional<uint64_t> apart) override;
  bool give_paused() override;
  bool give_youngest() override;
  int64_t youngest() const override { return running_.empty() ? -1 : at(*running_.rbegin()).arrival; }
  std::vector<int32_t> blocks_after(int64_t arrival) const override;

  bool idle() const { return waiting_.empty() && running_.empty(); }
  std::span<const int32_t> ids(int64_t sequence) const { return at(sequence).ids; }
  std::span<const int32_t> tentative(int64_t sequence) const { return at(sequence).tentative; }
  std::span<const int32_t> blocks(int64_t sequence) const { return at(sequence).blocks; }
  // The number of positions that counted when the keys of a position were first computed: those of the ids
  // that were given together, or those up to its own.
  int64_t reach(int64_t sequence, int64_t position) const;
  const BlockPool& pool() const { return *pool_; }
  const Limits& limits() const { return limits_; }
  int64_t first_waiting() const { return waiting_.empty() ? -1 : *waiting_.begin(); }
  int64_t waiting() const { return std::ssize(waiting_); }
  int64_t running() const { return std::ssize(running_); }
  // Times that a sequence that ran gave its blocks back, because there were too few or no memory for them.
  int64_t preempted() const { return preempted_; }

 private:
  struct Given {
    int64_t begin, end;
  };
  // Sequences that begin with the same ids: the followers wait until the leader has computed them all, and
  // then share the blocks.
  struct Group {
    int64_t leader;
    std::set<int64_t> followers;
  };
  struct Sequence {
    std::vector<int32_t> ids, blocks;
    std::vector<Given> given;      // the ids that were not generated
    std::shared_ptr<Group> group;  // null: it waits for none, and none for it
    int64_t arrival = 0;           // among all of the pool
    bool whole = false;            // begins with no block of others
    int64_t computed = 0;
    int64_t known = 0;                // blocks whose content is known
    uint64_t apart = 0, content = 0;  // content: of the last of them, or apart
    bool mixed = false;               // it has keys that were computed with another `apart`
    // The sequence that computes what this one continues with, and the whole blocks that both begin with; -1:
    // nothing is known of such a one.
    int64_t awaits = -1, awaited = 0;
    // Ids that may follow, and how many of them have been computed, in rows after `computed`.
    std::vector<int32_t> tentative;
    int64_t checked = 0;
  };
  // A step while it is chosen.
  struct Turn {
    Step step;
    int64_t rows;           // that it still has room for
    int64_t kept_rows = 0;  // of these, for sequences that decode and came after the first chunk
    bool has_chunk = false;
    int64_t looked_at = -1;   // the last waiting sequence that had its turn to begin
    int64_t deferred = 0;     // those of them that wait for what others compute
    int64_t kept_blocks = 0;  // which these will need besides
    bool closed = false;      // no more sequences begin
  };

  const Sequence& at(int64_t sequence) const { return all_.at(sequence); }
  Sequence& at(int64_t sequence) { return all_.at(sequence); }
  int64_t rows_left(int64_t number) const { return std::ssize(at(number).ids) - at(number).computed; }
  int64_t room(const Turn& turn) const;
  void choose(Turn& turn);
  void keep_rows(int64_t number, Turn& turn);
  void go_on(int64_t number, Turn& turn);
  void give_rows(int64_t number, int64_t most, Turn& turn);
  void admit(int64_t before, Turn& turn);
  void add_tentative(Turn& turn);
  void drop_tentative(Sequence& sequence);
  bool is_deferred(Sequence& sequence);
  void find_computing(Sequence& sequence);
  bool reserve(Sequence& sequence, int64_t end);
  bool take_back();
  void undo_copies();
  void steal();
  void wait(int64_t number);
  void preempt(int64_t number);
  void lengthened(int64_t number, int64_t length_before);
  void release(Sequence& sequence);
  void find_prefix(Sequence& sequence);
  void learn(Sequence& sequence);
  void follow(Sequence& leader);
  Content content_of(const Sequence& sequence) const;
  bool shares(const Sequence& sequence) const {
    return limits_.prefix_cache && !sequence.mixed && std::ssize(sequence.ids) <= limits_.common_length;
  }
  bool begins_with_others(const Sequence& sequence) const { return shares(sequence) && !sequence.whole; }

  Limits limits_;
  std::shared_ptr<BlockPool> pool_;
  int64_t stuck_at_ = -1;  // pool_->steps() when blocks that others hold were missing
  int64_t numbered_ = 0, preempted_ = 0;
  std::map<int64_t, Sequence> all_;
  std::set<int64_t> waiting_, running_;  // the smallest number came first
  std::set<int64_t> paused_;             // those that may have blocks
  std::vector<Copy> copies_;             // of a step that is not done
};

}  // namespace trl::generate
