// See example_store.h.
#include "data/example_store.h"

#include <algorithm>

namespace trl::data {

namespace {
constexpr size_t kFirstChunk = size_t{1} << 14;  // tokens; chunks grow with what is there, to at most
constexpr size_t kLargestChunk = size_t{1} << 20;
}  // namespace

void ExampleStore::charge(size_t bytes) {
  memory_.charge(base::MemoryKind::data, static_cast<int64_t>(bytes));
  charged_ += static_cast<int64_t>(bytes);
}

ExampleStore::Chunk& ExampleStore::room_for(size_t tokens) {
  if (!chunks_.empty()) {
    Chunk& last = chunks_.back();
    if (last.ids.capacity() - last.ids.size() >= tokens) return last;
  }
  const size_t capacity =
      std::max(tokens, std::clamp(static_cast<size_t>(total_) / 8, kFirstChunk, kLargestChunk));
  charge(capacity * sizeof(int32_t) + capacity / 8);
  Chunk& chunk = chunks_.emplace_back();
  chunk.ids.reserve(capacity);
  chunk.trained.reserve(capacity);
  return chunk;
}

void ExampleStore::add(const Tokens& tokens, int64_t source_row) {
  if (rows_.size() == rows_.capacity()) {
    const size_t capacity = std::max<size_t>(1024, rows_.capacity() * 3 / 2);
    charge((capacity - rows_.capacity()) * sizeof(Place));
    rows_.reserve(capacity);
  }
  Chunk& chunk = room_for(tokens.ids.size());
  rows_.push_back({static_cast<int32_t>(chunks_.size() - 1), static_cast<int32_t>(chunk.ids.size()),
                   static_cast<int64_t>(tokens.ids.size()), source_row});
  bool own = false;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    chunk.ids.push_back(tokens.ids[i]);
    chunk.trained.push_back(tokens.labels[i] != kIgnored);
    own = own || (tokens.labels[i] != kIgnored && tokens.labels[i] != tokens.ids[i]);
  }
  if (own) {
    charge(tokens.labels.size() * sizeof(int32_t));
    own_labels_.emplace(source_row, tokens.labels);
  }
  total_ += static_cast<int64_t>(tokens.ids.size());
}

void ExampleStore::reorder(const std::vector<int64_t>& order) {
  std::vector<Place> places;
  places.reserve(rows_.capacity());
  for (const int64_t row : order) places.push_back(at(row));
  rows_ = std::move(places);
}

std::pair<const int32_t*, int64_t> ExampleStore::input_ids(int64_t row) const {
  const Place& place = at(row);
  return {chunks_[static_cast<size_t>(place.chunk)].ids.data() + place.begin, place.length};
}

void ExampleStore::copy_labels(int64_t row, int32_t* out) const {
  const Place& place = at(row);
  if (const auto own = own_labels_.find(place.source); own != own_labels_.end()) {
    std::copy(own->second.begin(), own->second.end(), out);
    return;
  }
  const Chunk& chunk = chunks_[static_cast<size_t>(place.chunk)];
  const size_t begin = static_cast<size_t>(place.begin);
  for (size_t i = 0; i < static_cast<size_t>(place.length); ++i) {
    out[i] = chunk.trained[begin + i] ? chunk.ids[begin + i] : kIgnored;
  }
}

}  // namespace trl::data
