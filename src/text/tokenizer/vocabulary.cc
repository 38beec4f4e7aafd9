#include "text/tokenizer/vocabulary.h"

#include "base/error.h"
#include "base/files/hash.h"

namespace trl::text {

namespace {
constexpr size_t kMaxBytes = size_t{1} << 28;  // the largest known ones have 4 MiB
}  // namespace

void Vocabulary::reserve(size_t tokens) {
  entries_.reserve(tokens);
  while (slots_.size() < 2 * tokens) grow();
}

// Returns the slot of the token, or the free one for it.
size_t Vocabulary::slot(std::string_view token, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask;
  while (slots_[at].id >= 0) {
    if (slots_[at].tag == tag && text(entries_[static_cast<size_t>(slots_[at].id)]) == token) break;
    at = (at + 1) & mask;
  }
  return at;
}

void Vocabulary::grow() {
  slots_.assign(slots_.empty() ? 64 : 2 * slots_.size(), Slot{});
  for (size_t id = 0; id < entries_.size(); ++id) {
    if (entries_[id].length == kHole) continue;
    const std::string_view token = text(entries_[id]);
    const uint64_t hash = base::xxh3_64(token);
    slots_[slot(token, hash)] = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(id)};
  }
}

bool Vocabulary::add(std::string_view token, int32_t id) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  const auto index = static_cast<size_t>(id);
  const uint64_t hash = base::xxh3_64(token);
  const size_t at = slot(token, hash);
  if (slots_[at].id >= 0 || (index < entries_.size() && entries_[index].length != kHole)) return false;
  insert(token, hash, at, id);
  return true;
}

void Vocabulary::put(std::string_view token, int32_t id) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  const uint64_t hash = base::xxh3_64(token);
  insert(token, hash, slot(token, hash), id);
}

void Vocabulary::insert(std::string_view token, uint64_t hash, size_t at, int32_t id) {
  if (bytes_.size() + token.size() > kMaxBytes)
    fail(Status::format, "a vocabulary of more than {} MiB", kMaxBytes >> 20);
  const auto index = static_cast<size_t>(id);
  if (index >= entries_.size()) entries_.resize(index + 1);
  entries_[index] = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size())};
  bytes_.append(token);
  slots_[at] = {static_cast<uint32_t>(hash >> 32), id};
  ++count_;
}

int32_t Vocabulary::find(std::string_view token) const {
  return slots_.empty() ? -1 : slots_[slot(token, base::xxh3_64(token))].id;
}

std::optional<std::string_view> Vocabulary::token(int32_t id) const {
  if (id < 0 || id >= end() || entries_[static_cast<size_t>(id)].length == kHole) return std::nullopt;
  return text(entries_[static_cast<size_t>(id)]);
}

}  // namespace trl::text
