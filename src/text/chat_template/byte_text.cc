// Bytes: what str.encode gives, in the encodings that text of a chat may need.
#include <algorithm>

#include "base/text/utf8.h"
#include "text/chat_template/text_conversions.h"

namespace trl::text::jinja {

namespace {

enum class Encoding : uint8_t { utf8, latin1, ascii };

Encoding encoding_of(Run& run, const std::string& name) {
  std::string plain;
  for (const char c : name) {
    if (c != '-' && c != '_' && c != ' ') plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  if (plain == "utf8" || plain == "u8") return Encoding::utf8;
  if (plain == "latin1" || plain == "iso88591" || plain == "l1") return Encoding::latin1;
  if (plain == "ascii" || plain == "usascii") return Encoding::ascii;
  run.fail("the encoding '{}' is not supported; utf-8, latin-1 and ascii are", name);
}

// The replacement for a character that the encoding lacks.
std::string substitute(Run& run, const std::string& errors, const std::string& encoding, char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  if (errors == "ignore") return {};
  if (errors == "replace") return "?";
  if (errors == "xmlcharrefreplace") return fmt::format("&#{};", code);
  if (errors == "backslashreplace") {
    return code < 0x100     ? fmt::format("\\x{:02x}", code)
           : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                            : fmt::format("\\U{:08x}", code);
  }
  if (errors != "strict") run.fail("encode(): unknown error handler name '{}'", errors);
  run.fail("'{}' codec can't encode character U+{:04X}", encoding, code);
}

Value bytes_value(Run& run, std::string_view bytes) {
  run.produce(bytes.size() * sizeof(Value));
  Values items;
  items.reserve(bytes.size());
  for (const char c : bytes) items.push_back(Value::integer(static_cast<unsigned char>(c)));
  return run.sequence(SequenceType::bytes, std::move(items));
}

std::string plain_bytes(const Values& items) {
  std::string bytes;
  bytes.reserve(items.size());
  for (const Value& item : items) bytes += static_cast<char>(item.integer());
  return bytes;
}

}  // namespace

Value encode_text(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "encode", std::move(arguments), {"encoding", "errors"});
  const std::string name = p.text(0, "utf-8");
  const std::string errors = p.text(1, "strict");
  const Encoding encoding = encoding_of(run, name);
  const std::string& text = self.bytes();
  if (encoding == Encoding::utf8 || self.text().ascii()) return bytes_value(run, text);
  const char32_t limit = encoding == Encoding::latin1 ? 0x100 : 0x80;
  Writer out(run);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = base::next_code_point(text, at);
    const char byte = static_cast<char>(c);
    out.append(c < limit ? std::string(1, byte) : substitute(run, errors, name, c));
  }
  return bytes_value(run, out.text());
}

Value decode_bytes(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "decode", std::move(arguments), {"encoding", "errors"});
  const std::string name = p.text(0, "utf-8");
  const std::string errors = p.text(1, "strict");
  const Encoding encoding = encoding_of(run, name);
  const std::string bytes = plain_bytes(self.sequence().items);
  if (encoding == Encoding::latin1) {
    std::string text;
    for (const char c : bytes) base::append_utf8(text, static_cast<unsigned char>(c));
    return run.text(std::move(text));
  }
  const auto high = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  const size_t bad =
      encoding == Encoding::utf8
          ? base::find_invalid_utf8(bytes)
          : static_cast<size_t>(std::find_if(bytes.begin(), bytes.end(), high) - bytes.begin());
  if (bad == base::kValid || bad == bytes.size()) return run.text(bytes);
  if (errors == "replace" && encoding == Encoding::utf8) return run.text(base::replace_invalid_utf8(bytes));
  run.fail("'{}' codec can't decode byte 0x{:02x} in position {}", name,
           static_cast<unsigned char>(bytes[bad]), bad);
}

Value bytes_hex(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "hex", std::move(arguments), {});
  std::string out;
  for (const Value& item : self.sequence().items) out += fmt::format("{:02x}", item.integer());
  return run.text(std::move(out));
}

std::string bytes_repr(const Values& bytes) {
  const std::string text = plain_bytes(bytes);
  const bool doubled = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out = std::string("b") + quote;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out + quote;
}

}  // namespace trl::text::jinja
