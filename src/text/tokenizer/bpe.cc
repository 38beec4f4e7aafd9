#include "text/tokenizer/bpe.h"

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
}  // namespace

Bpe::Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options, const std::string& where)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
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
  if (!std::all_of(character.begin(), character.end(), [&](char byte) { return token(byte) >= 0; }))
    return false;
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
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (const auto* merge =
            merges_.find(static_cast<uint32_t>(symbols[i].id), static_cast<uint32_t>(symbols[i + 1].id)))
      queue.push_back(static_cast<uint64_t>(merge->first) << 32 | i);
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  merge_queue(UINT32_MAX, space);
}

void Bpe::tokenize(const Piece& word, ModelSpace& room, Tokens& out) const {
  auto& space = static_cast<BpeSpace&>(room);
  const int32_t id = vocabulary_.find(word.text);
  std::atomic<uint8_t>* whole = id >= 0 ? &whole_[static_cast<size_t>(id)] : nullptr;
  if (whole && (options_.ignore_merges || whole->load(std::memory_order_relaxed) == kWhole)) {
    out.ids.push_back(id);
    if (out.tracked) out.spans.push_back({word.spans[0].begin, word.spans[word.text.size() - 1].end});
    return;
  }
  start(word.text, space);
  space.symbols.size() < kLongWord ? merge(space) : merge_long(space);
  if (whole) {  // no symbol: all its characters are unknown, and without unk_token they vanish
    const bool is_whole = !space.symbols.empty() && space.symbols[0].id == id;
    whole->store(is_whole ? kWhole : kSplit, std::memory_order_relaxed);
  }
  size_t begin = 0;
  for (const BpeSpace::Symbol& symbol : space.symbols) {
    if (symbol.length == 0) continue;
    out.ids.push_back(symbol.id);
    if (out.tracked)
      out.spans.push_back({word.spans[begin].begin, word.spans[begin + symbol.length - 1].end});
    begin += symbol.length;
  }
}

}  // namespace trl::text
