// str to bytes and back, and str.translate.
#pragma once
#include "text/chat_template/run.h"

namespace trl::text::jinja {

Value encode_text(Run& run, const Value& self, Arguments arguments);   // str.encode
Value decode_bytes(Run& run, const Value& self, Arguments arguments);  // bytes.decode
Value bytes_hex(Run& run, const Value& self, Arguments arguments);     // bytes.hex, without a separator
std::string bytes_repr(const Values& bytes);

Value translate_text(Run& run, const Value& self, Arguments arguments);    // str.translate
Value make_translation(Run& run, const Value& self, Arguments arguments);  // str.maketrans

}  // namespace trl::text::jinja
