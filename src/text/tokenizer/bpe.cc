#include "text/tokenizer/subword_model.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text/utf8.h"

namespace trl::text {

namespace {
constexpr size_t kLongWord = 8192;                 // symbols
constexpr size_t kBytesPerPoll = size_t{1} << 16;  // bytes between two polls
constexpr size_t kMergesPerPoll = 4096;

// Merges long words rank by rank: a merge's result waits under higher ranks, so all pairs of a rank are known
// at its turn. A place is visited once for each of its pairs, so the time is linear in the word.

constexpr size_t kAhead = 16;                       // places that are fetched from memory early
constexpr size_t kPlacesPerPoll = size_t{1} << 14;  // places between two polls

// Sorts places, which form a few rising runs, one for each merge that made a part of the pair.
void sort_runs(std::vector<uint32_t>& places) {
  std::vector<size_t> runs = {0};
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i] < places[i - 1]) runs.push_back(i);
  runs.push_back(places.size());
  const auto at = [&](size_t run) { return places.begin() + static_cast<ptrdiff_t>(runs[run]); };
  while (runs.size() > 2) {
    std::vector<size_t> longer;
    for (size_t run = 0; run + 1 < runs.size(); run += 2) {
      if (run + 2 < runs.size()) std::inplace_merge(at(run), at(run + 1), at(run + 2));
      longer.push_back(runs[run]);
    }
    longer.push_back(places.size());
    runs = std::move(longer);
  }
}
}  // namespace

Bpe::Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options, const std::string& where)
    : Model(std::move(vocabulary)), options_(std::move(options)) {
  for (char32_t c = 0; c < characters_.size(); ++c) {
    std::string character;
    base::append_utf8(character, c);
    characters_[c] = vocabulary_.find(character);
  }
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = options_.byte_fallback ? vocabulary_.find(fmt::format("<0x{:02X}>", byte)) : -1;
  if (!options_.unknown.empty()) unknown_ = vocabulary_.find(options_.unknown);
  if (!options_.unknown.empty() && unknown_ < 0)
    fail(Status::format, "{}: unk_token '{}' is not in the vocabulary", where, options_.unknown);
  read_merges(merges, where);
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(static_cast<size_t>(vocabulary_.end()));
}

void Bpe::read_merges(const Merges& merges, const std::string& where) {
  if (merges.size() >= UINT32_MAX) fail(Status::format, "{}: {} merges are too many", where, merges.size());
  merges_.reserve(merges.size());
  ranks_.reserve(merges.size());
  std::string merged;
  std::vector<size_t> used(static_cast<size_t>(vocabulary_.end()),
                           SIZE_MAX);  // by id: the first rank that has it
  const auto id_of = [&](const std::string& token) {
    const int32_t id = vocabulary_.find(token);
    if (id < 0)
      fail(Status::format, "{}.merges[{}]: '{}' is not in the vocabulary", where, ranks_.size(), token);
    return id;
  };
  for (const auto& [left, right] : merges) {
    if (ranks_.size() % kMergesPerPoll == 0) base::poll();
    if (right.size() < options_.prefix.size())
      fail(Status::format, "{}.merges[{}]: '{}' without the prefix '{}'", where, ranks_.size(), right,
           options_.prefix);
    merged = left + right.substr(options_.prefix.size());
    const Merge merge = {id_of(left), id_of(right), id_of(merged), false};
    const auto rank = static_cast<uint32_t>(ranks_.size());
    merges_.set(static_cast<uint32_t>(merge.left), static_cast<uint32_t>(merge.right), {rank, merge.merged});
    for (const int32_t part : {merge.left, merge.right}) {
      size_t& first = used[static_cast<size_t>(part)];
      first = std::min<size_t>(first, rank);
    }
    ranks_.push_back(merge);
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    ranks_[rank].leads_back = used[static_cast<size_t>(ranks_[rank].merged)] <= rank;
}

void Bpe::append(int32_t id, size_t length, BpeSpace& space) const {
  const auto index = static_cast<int32_t>(space.symbols.size());
  space.symbols.push_back({id, static_cast<uint32_t>(length), index - 1, index + 1});
}

bool Bpe::append_bytes(std::string_view character, BpeSpace& space) const {
  const auto token = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
  if (!std::ranges::all_of(character, [&](char byte) { return token(byte) >= 0; })) return false;
  for (const char byte : character) append(token(byte), 1, space);
  return true;
}

int32_t Bpe::character_id(std::string_view word, size_t begin, size_t end, char32_t c) const {
  const bool first = begin == 0, last = end == word.size();
  const std::string_view character = word.substr(begin, end - begin);
  if ((first || options_.prefix.empty()) && (!last || options_.suffix.empty()))
    return c < characters_.size() ? characters_[c] : vocabulary_.find(character);
  return vocabulary_.find(
      fmt::format("{}{}{}", first ? "" : options_.prefix, character, last ? options_.suffix : ""));
}

// Starts with characters of the vocabulary, and byte tokens or the unknown token for others.
void Bpe::start(std::string_view word, BpeSpace& space) const {
  space.symbols.clear();
  if (word.size() >= kLongWord) space.symbols.reserve(word.size());
  size_t unknown = 0;  // bytes of unknown characters whose token is pending
  const auto flush = [&] {
    if (unknown > 0) append(unknown_, unknown, space);
    unknown = 0;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(word, at);
    if (at / kBytesPerPoll != begin / kBytesPerPoll) base::poll();
    const std::string_view character = word.substr(begin, at - begin);
    if (const int32_t id = character_id(word, begin, at, c); id >= 0) {
      flush();
      append(id, character.size(), space);
    } else if (!(options_.byte_fallback && append_bytes(character, space)) && unknown_ >= 0) {
      if (!options_.fuse_unknown) flush();
      unknown += character.size();
    }
  }
  flush();
  if (!space.symbols.empty()) space.symbols.back().next = -1;
}

// Puts a pair into the queue up to the rank `most`, into the places of its rank above.
void Bpe::push(size_t left, size_t right, uint32_t most, BpeSpace& space) const {
  const auto id = [&](size_t index) { return static_cast<uint32_t>(space.symbols[index].id); };
  const PairTable::Value* merge = merges_.find(id(left), id(right));
  if (!merge) return;
  if (merge->first > most) return place(left, merge->first, space);
  space.queue.push_back(static_cast<uint64_t>(merge->first) << 32 | left);
  std::push_heap(space.queue.begin(), space.queue.end(), std::greater<>());
}

// Joins two symbols into one; returns the one after it.
int32_t Bpe::join(size_t at, int32_t merged, BpeSpace& space) const {
  auto& left = space.symbols[at];
  auto& right = space.symbols[static_cast<size_t>(left.next)];
  left.id = merged;
  left.length += right.length;
  left.next = right.next;
  right.length = 0;
  if (left.next >= 0) space.symbols[static_cast<size_t>(left.next)].previous = static_cast<int32_t>(at);
  return left.next;
}

void Bpe::merge_queue(uint32_t most, BpeSpace& space) const {
  auto& queue = space.queue;
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t top = queue.back();
    queue.pop_back();
    const size_t at = top & UINT32_MAX;
    const auto& left = space.symbols[at];
    const Merge& merge = ranks_[top >> 32];
    // The entry is stale when the pair became another one.
    if (left.length == 0 || left.next < 0 || left.id != merge.left ||
        space.symbols[static_cast<size_t>(left.next)].id != merge.right)
      continue;
    const int32_t next = join(at, merge.merged, space);
    if (left.previous >= 0) push(static_cast<size_t>(left.previous), at, most, space);
    if (next >= 0) push(at, static_cast<size_t>(next), most, space);
  }
}

void Bpe::merge(BpeSpace& space) const {
  auto& symbols = space.symbols;
  auto& queue = space.queue;
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    if (const auto* merge =
            merges_.find(static_cast<uint32_t>(symbols[i].id), static_cast<uint32_t>(symbols[i + 1].id)))
      queue.push_back(static_cast<uint64_t>(merge->first) << 32 | i);
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  merge_queue(UINT32_MAX, space);
}

void Bpe::tokenize(const Piece& word, ModelSpace& room, Tokens& out) const {
  auto& space = static_cast<BpeSpace&>(room);
  const int32_t id = vocabulary_.find(word.text);
  std::atomic<uint8_t>* whole = id >= 0 ? &whole_[static_cast<size_t>(id)] : nullptr;
  if (whole && (options_.ignore_merges || whole->load(std::memory_order_relaxed) == kWhole))
    return out.add(id, word);
  start(word.text, space);
  space.symbols.size() < kLongWord ? merge(space) : merge_long(space);
  if (whole) {  // no symbol: all its characters are unknown, and without unk_token they vanish
    const bool is_whole = !space.symbols.empty() && space.symbols[0].id == id;
    whole->store(is_whole ? kWhole : kSplit, std::memory_order_relaxed);
  }
  size_t begin = 0;
  for (const BpeSpace::Symbol& symbol : space.symbols) {
    if (symbol.length == 0) continue;
    out.add(symbol.id, word.part(begin, begin + symbol.length));
    begin += symbol.length;
  }
}

void Bpe::place(size_t at, uint32_t rank, BpeSpace& space) const {
  std::vector<uint32_t>& places = space.places[rank];
  if (places.empty()) {
    space.waiting.push_back(rank);
    std::push_heap(space.waiting.begin(), space.waiting.end(), std::greater<>());
  }
  places.push_back(static_cast<uint32_t>(at));
}

// Returns the number of merged places, which are then at the front.
size_t Bpe::merge_at_once(uint32_t rank, std::vector<uint32_t>& places, BpeSpace& space) const {
  const auto& symbols = space.symbols;
  const Merge& merge = ranks_[rank];
  size_t merged = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i + kAhead < places.size()) __builtin_prefetch(&symbols[places[i + kAhead]]);
    const auto& left = symbols[places[i]];
    if (left.length == 0 || left.next < 0 || left.id != merge.left ||
        symbols[static_cast<size_t>(left.next)].id != merge.right)
      continue;
    join(places[i], merge.merged, space);
    places[merged++] = places[i];
  }
  return merged;
}

// Merges a new pair at a place whose rank is not higher before the next place, as it is to the left of that.
void Bpe::merge_one_by_one(uint32_t rank, const std::vector<uint32_t>& places, BpeSpace& space) const {
  space.queue.clear();
  size_t done = 0;
  for (const uint32_t at : places) {
    if (++done % kPlacesPerPoll == 0) base::poll();
    space.queue.push_back(static_cast<uint64_t>(rank) << 32 | at);
    merge_queue(rank, space);
  }
}

void Bpe::merge_long(BpeSpace& space) const {
  const auto& symbols = space.symbols;
  space.places.resize(ranks_.size());
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (i % kPlacesPerPoll == 0) base::poll();
    const auto* merge =
        merges_.find(static_cast<uint32_t>(symbols[i].id), static_cast<uint32_t>(symbols[i + 1].id));
    if (merge) place(i, merge->first, space);
  }
  while (!space.waiting.empty()) {
    base::poll();
    std::pop_heap(space.waiting.begin(), space.waiting.end(), std::greater<>());
    const uint32_t rank = space.waiting.back();
    space.waiting.pop_back();
    std::vector<uint32_t> places;
    places.swap(space.places[rank]);
    sort_runs(places);
    if (ranks_[rank].leads_back) {
      merge_one_by_one(rank, places, space);
      continue;
    }
    const size_t merged = merge_at_once(rank, places, space);
    for (size_t i = 0; i < merged; ++i) {
      if (i + kAhead < merged) __builtin_prefetch(&symbols[places[i + kAhead]]);
      const auto [id, length, previous, next] = symbols[places[i]];
      if (previous >= 0) push(static_cast<size_t>(previous), places[i], rank, space);
      const bool comes_up_there = i + 1 < merged && static_cast<uint32_t>(next) == places[i + 1];
      if (next >= 0 && !comes_up_there) push(places[i], static_cast<size_t>(next), rank, space);
    }
  }
}

}  // namespace trl::text
