#include "base/files/hashed_copy.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace trl::base {

namespace {

constexpr size_t kPart = 1024;       // bytes that are hashed, and then copied
constexpr size_t kAhead = 16 << 10;  // bytes between what is copied and what is fetched for later
constexpr size_t kLine = 64;         // bytes of a line of the caches

#ifdef __SSE2__
// Copies whole lines to an address at a multiple of 16, past the caches.
void copy_past_caches(char* to, const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + at);
    auto* const target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1),
                  c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
}

void copy_part(char* to, const char* from, size_t bytes) {
  const bool fits = reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0;
  const size_t lines = fits ? bytes / kLine * kLine : 0;
  copy_past_caches(to, from, lines);
  std::memcpy(to + lines, from + lines, bytes - lines);
}

// Makes what was copied past the caches visible before anything that follows.
void finish_copy() { _mm_sfence(); }
#else
void copy_part(char* to, const char* from, size_t bytes) { std::memcpy(to, from, bytes); }
void finish_copy() {}
#endif

void fetch(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); at += kLine) __builtin_prefetch(bytes.data() + at, 0, 2);
}

// Returns the part that begins at `at`; empty after the end.
std::string_view part_of(std::string_view bytes, size_t at) {
  return at < bytes.size() ? bytes.substr(at, kPart) : std::string_view();
}

}  // namespace

// Copies bytes; next: those that come afterwards, as many as these or fewer.
void HashedCopy::put(std::string_view bytes, std::string_view next) {
  for (size_t at = 0; at < bytes.size(); at += kPart) {
    const std::string_view part = part_of(bytes, at);
    fetch(part_of(next, at));
    hash_.update(part);
    copy_part(to_, part.data(), part.size());
    to_ += part.size();
  }
}

void HashedCopy::add(std::string_view bytes) {
  put(bytes, bytes.substr(std::min(kAhead, bytes.size())));
  finish_copy();
}

void HashedCopy::add_shared(std::string_view bytes) {
  alignas(kLine) char own[kAhead];
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kAhead);
    bytes.remove_prefix(piece.size());
    std::memcpy(own, piece.data(), piece.size());
    put({own, piece.size()}, bytes.substr(0, kAhead));
  }
  finish_copy();
}

}  // namespace trl::base
