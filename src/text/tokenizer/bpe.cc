#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/utf8.h"

namespace trl::text {

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
  merged_ids_.reserve(merges.size());
  std::string merged;
  const auto id_of = [&](const std::string& token) {
    const int32_t id = vocabulary_.find(token);
    if (id < 0)
      fail(Status::format, "{}.merges[{}]: '{}' is not in the vocabulary", where, merged_ids_.size(), token);
    return static_cast<uint32_t>(id);
  };
  for (const auto& [left, right] : merges) {
    merged = left + right;
    const auto id = static_cast<int32_t>(id_of(merged));
    merges_.set(id_of(left), id_of(right), {static_cast<uint32_t>(merged_ids_.size()), id});
    merged_ids_.push_back(id);
  }
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

// Characters that are in the vocabulary, byte tokens or the unknown token for others.
void Bpe::start(std::string_view word, BpeSpace& space) const {
  space.symbols.clear();
  size_t unknown = 0;  // bytes of unknown characters that wait for their token
  const auto flush = [&] {
    if (unknown > 0) append(unknown_, unknown, space);
    unknown = 0;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(word, at);
    const std::string_view character = word.substr(begin, at - begin);
    if (const int32_t id = character_id(character, c); id >= 0) {
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

void Bpe::push(size_t left, size_t right, BpeSpace& space) const {
  const auto id = [&](size_t index) { return static_cast<uint32_t>(space.symbols[index].id); };
  if (const PairTable::Value* merge = merges_.find(id(left), id(right))) {
    space.queue.push_back(static_cast<uint64_t>(merge->first) << 32 | left);
    std::push_heap(space.queue.begin(), space.queue.end(), std::greater<>());
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
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t top = queue.back();
    queue.pop_back();
    const size_t at = top & UINT32_MAX;
    auto& left = symbols[at];
    if (left.length == 0 || left.next < 0) continue;
    auto& right = symbols[static_cast<size_t>(left.next)];
    // The entry is stale when the pair became another one that does not merge to the same token.
    const int32_t merged = merged_ids_[top >> 32];
    const PairTable::Value* now =
        merges_.find(static_cast<uint32_t>(left.id), static_cast<uint32_t>(right.id));
    if (!now || now->second != merged) continue;
    left.id = merged;
    left.length += right.length;
    left.next = right.next;
    right.length = 0;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = static_cast<int32_t>(at);
    if (left.previous >= 0) push(static_cast<size_t>(left.previous), at, space);
    if (left.next >= 0) push(at, static_cast<size_t>(left.next), space);
  }
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
  merge(space);
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
