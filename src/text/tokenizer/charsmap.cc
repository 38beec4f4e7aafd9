#include "text/tokenizer/charsmap.h"

#include <nettle/base64.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/utf8.h"

namespace trl::text {

namespace {
// Reads the bits of a unit.
constexpr bool is_value(uint32_t unit) { return unit >> 31; }
constexpr uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFF; }
constexpr uint32_t label(uint32_t unit) { return unit & 0x800000FF; }
constexpr bool has_leaf(uint32_t unit) { return unit >> 8 & 1; }
constexpr size_t offset(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 1u << 9) >> 6); }

uint32_t read_uint32(std::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << 8 * i;
  return number;
}

std::string decode_base64(const Field& field) {
  const std::string& text = field.text();
  std::string bytes(BASE64_DECODE_LENGTH(text.size()), '\0');
  base64_decode_ctx context;
  base64_decode_init(&context);
  size_t size = bytes.size();
  if (!base64_decode_update(&context, &size, reinterpret_cast<uint8_t*>(bytes.data()), text.size(),
                            text.data()) ||
      !base64_decode_final(&context))
    fail(Status::format, "{}: the text is not base64", field.where());
  bytes.resize(size);
  return bytes;
}
}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& where) {
  const size_t count = bytes.size() < 4 ? 0 : read_uint32(bytes, 0) / 4;
  if (count == 0 || count > bytes.size() / 4 - 1 || read_uint32(bytes, 0) % 4 != 0)
    fail(Status::format, "{}: {} bytes with a trie of {} units of 4 bytes", where, bytes.size(), count);
  units_.reserve(count);
  for (size_t i = 1; i <= count; ++i) units_.push_back(read_uint32(bytes, 4 * i));
  replacements_ = bytes.substr(4 * (count + 1));
  if (const size_t bad = base::find_invalid_utf8(replacements_); bad != base::kValid)
    fail(Status::format, "{}: the replacements are not valid UTF-8 at byte {}", where, bad);
  check(where);
}

void Charsmap::check(const std::string& where) const {
  for (size_t i = 0; i < units_.size(); ++i) {
    if (is_value(units_[i])) continue;
    const size_t target = i ^ offset(units_[i]);
    if (target >= units_.size())
      fail(Status::format, "{}: unit {} of the trie points to unit {} of {}", where, i, target,
           units_.size());
    if (!has_leaf(units_[i])) continue;
    const uint32_t at = value(units_[target]);
    if (at > replacements_.size() || (at < replacements_.size() && (replacements_[at] & 0xC0) == 0x80))
      fail(Status::format, "{}: unit {} of the trie points to byte {} of {} bytes of replacements", where,
           target, at, replacements_.size());
  }
}

std::string_view Charsmap::replacement(uint32_t at) const {
  const std::string_view rest = std::string_view(replacements_).substr(at);
  return rest.substr(0, rest.find('\0'));
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  size_t at = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || label(units_[at]) != byte) return std::nullopt;
    const uint32_t unit = units_[at];
    at ^= offset(unit);
    if (has_leaf(unit)) return replacement(value(units_[at]));
  }
  return std::nullopt;
}

namespace {
constexpr size_t kMaxUnits = size_t{1} << 22;  // the known tables have 2^16
constexpr size_t kMaxReplacement = 256;        // bytes; those of NFKC have up to 33
constexpr int kMostOnWay = 32, kMaxDepth = 255;

// Counts the most replacements on a path through the trie. Paths join again, so each unit is visited once.
class Ways {
 public:
  Ways(const std::vector<uint32_t>& units, const std::string& where)
      : units_(units), where_(where), most_(units.size(), kUnknown) {}

  int most(size_t unit, int depth) {
    if (most_[unit] != kUnknown) return most_[unit];
    if (depth > kMaxDepth) fail(Status::format, "{}: a text of more than {} bytes", where_, kMaxDepth);
    const size_t base = unit ^ offset(units_[unit]);
    if ((base | 0xFF) >= units_.size())
      fail(Status::format, "{}: unit {} of the trie leads to unit {} of {}", where_, unit, base | 0xFF,
           units_.size());
    int below = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const size_t next = base ^ byte;
      const bool stays =
          (next ^ offset(units_[next])) == base && !has_leaf(units_[next]);  // a free unit, at 0
      if (label(units_[next]) == byte && !stays) below = std::max(below, most(next, depth + 1));
    }
    most_[unit] = static_cast<int16_t>(below + (has_leaf(units_[unit]) ? 1 : 0));
    if (most_[unit] > kMostOnWay)
      fail(Status::format, "{}: more than {} texts begin with one another", where_, kMostOnWay);
    return most_[unit];
  }

 private:
  static constexpr int16_t kUnknown = -1;
  const std::vector<uint32_t>& units_;
  const std::string& where_;
  std::vector<int16_t> most_;
};
}  // namespace

void Charsmap::check_for_sentencepiece(const std::string& where) const {
  if (units_.size() > kMaxUnits)
    fail(Status::format, "{}: a trie of {} units: at most {} are read", where, units_.size(), kMaxUnits);
  for (size_t at = 0; at < replacements_.size(); at = replacements_.find('\0', at)) {
    at += replacements_[at] == '\0' ? 1 : 0;
    if (const size_t size = replacement(static_cast<uint32_t>(at)).size(); size > kMaxReplacement)
      fail(Status::format, "{}: a replacement of {} bytes: at most {} are read", where, size,
           kMaxReplacement);
  }
  Ways(units_, where).most(0, 0);
}

std::unique_ptr<Normalizer> read_precompiled(const Field& field) {
  const Field map = field.at("precompiled_charsmap");
  return precompiled_form(Charsmap(decode_base64(map), map.where()));
}

}  // namespace trl::text
