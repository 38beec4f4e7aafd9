// Text in the byte alphabet, as the normalizer and the pre-tokenizer ByteLevel write it.
#pragma once
#include "text/tokenizer/piece.h"

namespace trl::text {

// Each byte as its character; all of a character's have its origin.
void write_byte_characters(const Piece& piece, Buffer& out);

}  // namespace trl::text
