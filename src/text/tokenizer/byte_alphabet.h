// GPT-2's byte alphabet: each byte is written as one visible character, so that any bytes are text to a BPE
// model. Printable Latin-1 represents itself; the 68 other bytes follow from U+0100 on.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace trl::text {

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

}  // namespace trl::text
