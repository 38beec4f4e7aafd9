// A piece of text that passes through the pipeline and, when offsets are wanted, the origin of each of its
// bytes. Steps pass pieces on by call, so that no list of words exists.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/text/utf8.h"

namespace trl::text {

// A callable that is borrowed for the duration of a call.
template <typename Signature>
class FunctionRef;
template <typename R, typename... A>
class FunctionRef<R(A...)> {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>>>
  FunctionRef(F&& callable)  // NOLINT: converts on purpose
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, A... arguments) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<A&&>(arguments)...);
        }) {}
  R operator()(A... arguments) const { return call_(object_, static_cast<A&&>(arguments)...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

// Throws Error for a text that is too long to be encoded at once, or not UTF-8.
inline void check_text(std::string_view text) {
  constexpr size_t kMaxText = (size_t{1} << 31) - 1;  // offsets and symbols are counted in 32 bits
  if (text.size() > kMaxText)
    fail(Status::invalid_argument, "a text of {} bytes: at most {} are encoded at once", text.size(),
         kMaxText);
  if (const size_t bad = base::find_invalid_utf8(text); bad != base::kValid)
    fail(Status::format, "the text is not valid UTF-8 at byte {}", bad);
}

// Bytes [begin, end) of the text that was given to encode(). Always whole code points.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct Piece {
  std::string_view text;
  const Span* spans = nullptr;  // one per byte of text, or null: offsets are not wanted
  // The number of its first bytes that came from the first character of the text given to encode().
  size_t leading = 0;

  Piece part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), spans ? spans + begin : nullptr,
            leading > begin ? std::min(leading, end) - begin : 0};
  }
};

// A text that a step wrote itself.
struct Buffer {
  std::string text;
  std::vector<Span> spans;
  size_t leading = 0;

  void clear() {
    text.clear();
    spans.clear();
    leading = 0;
  }
  // Takes the piece, which is not empty, after a text with the origin of its first byte.
  void assign(std::string_view before, const Piece& piece) {
    clear();
    text.append(before).append(piece.text);
    if (piece.leading > 0) leading = before.size() + piece.leading;
    if (!piece.spans) return;
    spans.assign(before.size(), piece.spans[0]);
    spans.insert(spans.end(), piece.spans, piece.spans + piece.text.size());
  }
  // Returns the text that replaces `from`.
  Piece piece(const Piece& from) const { return {text, from.spans ? spans.data() : nullptr, leading}; }
};

using PieceSink = FunctionRef<void(const Piece&)>;

// Ids and, when wanted, their origins.
struct Tokens {
  std::vector<int32_t> ids;
  std::vector<Span> spans;
  bool tracked = false;

  void add(int32_t id, const Piece& piece) {  // not an empty one
    ids.push_back(id);
    if (tracked) spans.push_back({piece.spans[0].begin, piece.spans[piece.text.size() - 1].end});
  }
};

// Limits the size of the text that the steps produce: otherwise a few lines of a hostile file could ask for
// all memory.
// The limit is far above the output of any step of a known tokenizer (NFKC: 18 bytes for one character).
inline void refuse_growth(size_t before, size_t after, const char* steps) {
  if (after > 64 * before + (size_t{1} << 20))
    fail(Status::unsupported, "the steps of the {} make more than {} bytes of {}", steps, after - 1, before);
}

// GPT-2's byte alphabet: each byte is written as one visible character, so that any bytes are text to a BPE
// model. Printable Latin-1 represents itself; the 68 other bytes follow from U+0100 on.
inline constexpr char32_t kByteAlphabetEnd = 0x144;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char16_t, 256> make_byte_characters() {
  std::array<char16_t, 256> characters{};
  char16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte)
    characters[byte] = stands_for_itself(byte) ? static_cast<char16_t>(byte) : next++;
  return characters;
}
inline constexpr std::array<char16_t, 256> kByteCharacters = make_byte_characters();

constexpr std::array<int16_t, kByteAlphabetEnd> make_character_bytes() {
  std::array<int16_t, kByteAlphabetEnd> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) bytes[kByteCharacters[byte]] = static_cast<int16_t>(byte);
  return bytes;
}
inline constexpr std::array<int16_t, kByteAlphabetEnd> kCharacterBytes = make_character_bytes();  // -1: none

// Writes each byte as its character, as the normalizer and the pre-tokenizer ByteLevel do; all bytes of a
// character have its origin.
void write_byte_characters(const Piece& piece, Buffer& out);

}  // namespace trl::text
