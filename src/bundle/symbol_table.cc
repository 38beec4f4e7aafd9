#include "bundle/symbol_table.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace trl::bundle {

namespace {

constexpr uint32_t kFilterBits = 64;

uint32_t name_hash(const std::string& name) {
  uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

template <typename T>
void append(std::string& bytes, const std::vector<T>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

uint32_t Strings::add(const std::string& text) {
  const auto [known, first] = offsets_.emplace(text, static_cast<uint32_t>(bytes_.size()));
  if (first) bytes_.append(text.c_str(), text.size() + 1);
  return known->second;
}

uint32_t version_hash(const std::string& name) {
  uint32_t hash = 0;
  for (const char c : name) {
    hash = (hash << 4) + static_cast<unsigned char>(c);
    const uint32_t high = hash & 0xf0000000;
    hash = (hash ^ high >> 24) & ~high;
  }
  return hash;
}

NameHash::NameHash(std::vector<std::string> names) : order_(names.size()) {
  for (const std::string& name : names) hashes_.push_back(name_hash(name));
  buckets_ = std::max<uint32_t>(1, static_cast<uint32_t>(names.size()) / 4);
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](uint32_t a, uint32_t b) { return hashes_[a] % buckets_ < hashes_[b] % buckets_; });
}

// A filter in which each name sets two bits of one word; buckets with the first symbol of each; and the hash
// of each symbol; its lowest bit is set for the last one of a bucket.
std::string NameHash::table(uint32_t first) const {
  const uint32_t words =
      std::bit_ceil(std::max<uint32_t>(1, static_cast<uint32_t>(order_.size()) * 12 / kFilterBits));
  const auto shift = static_cast<uint32_t>(std::bit_width(words * kFilterBits) - 1);
  std::vector<uint64_t> filter(words);
  std::vector<uint32_t> heads(buckets_), chain;
  for (size_t i = 0; i < order_.size(); ++i) {
    const uint32_t hash = hashes_[order_[i]], bucket = hash % buckets_;
    filter[hash / kFilterBits % words] |= uint64_t{1} << hash % kFilterBits;
    filter[hash / kFilterBits % words] |= uint64_t{1} << (hash >> shift) % kFilterBits;
    if (heads[bucket] == 0) heads[bucket] = first + static_cast<uint32_t>(i);
    const bool last = i + 1 == order_.size() || hashes_[order_[i + 1]] % buckets_ != bucket;
    chain.push_back((hash & ~1U) | (last ? 1 : 0));
  }
  std::string bytes;
  append<uint32_t>(bytes, {buckets_, first, words, shift});
  append(bytes, filter);
  append(bytes, heads);
  append(bytes, chain);
  return bytes;
}

}  // namespace trl::bundle
