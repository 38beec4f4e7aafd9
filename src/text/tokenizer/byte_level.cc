#include "text/tokenizer/byte_level.h"

#include "text/tokenizer/byte_alphabet.h"

namespace trl::text {

void write_byte_characters(const Piece& piece, Buffer& out) {
  out.text.resize(2 * piece.text.size());
  char* to = out.text.data();
  out.leading = 0;
  if (piece.spans) out.spans.clear();
  for (size_t i = 0; i < piece.text.size(); ++i) {
    const char16_t c = kByteCharacters[static_cast<unsigned char>(piece.text[i])];
    const bool two = c >= 0x80;
    if (two) *to++ = static_cast<char>(0xC0 | (c >> 6));
    *to++ = static_cast<char>(two ? 0x80 | (c & 0x3F) : c);
    if (i < piece.leading) out.leading = static_cast<size_t>(to - out.text.data());
    if (piece.spans) out.spans.resize(out.spans.size() + (two ? 2 : 1), piece.spans[i]);
  }
  out.text.resize(static_cast<size_t>(to - out.text.data()));
}

}  // namespace trl::text
