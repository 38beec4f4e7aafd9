// Writes text in the byte alphabet, as the normalizer and the pre-tokenizer ByteLevel do.
#pragma once
#include "text/tokenizer/piece.h"

namespace trl::text {

// Writes each byte as its character; all bytes of a character have its origin.
void write_byte_characters(const Piece& piece, Buffer& out);

}  // namespace trl::text
