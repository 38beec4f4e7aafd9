#include "text/tokenizer/normalizer.h"

#include <utf8proc.h>

#include "base/error.h"
#include "base/text/base64.h"

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

std::string decoded(const Field& field) {
  std::optional<std::string> bytes = base::decode_base64(field.text());
  if (!bytes) fail(Status::format, "{}: the text is not base64", field.where());
  return std::move(*bytes);
}

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

constexpr size_t kMostCluster = 5;  // bytes

size_t cluster_end(std::string_view text, size_t at) {
  char32_t last = base::next_code_point(text, at);
  utf8proc_int32_t state = 0;
  for (size_t behind = at; behind < text.size(); at = behind) {
    const char32_t c = base::next_code_point(text, behind);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last),
                                         static_cast<utf8proc_int32_t>(c), &state))
      break;
    last = c;
  }
  return at;
}

// Writes replacements with their origins. A character with an empty replacement is counted with the one
// before it; before the first character it leaves no trace, so that all later ones have the origin of an
// earlier one.
class Replacer {
 public:
  Replacer(const Piece& piece, Buffer& out) : text_(piece.text), rewriter_(piece, out) {}

  void keep(size_t begin, size_t end) {
    if (begin == end) return;
    flush();
    begun_ = true;
    if (!late_) return rewriter_.copy(end);
    while (begin < end) rewriter_.put(base::next_code_point(text_, begin), 0);
  }

  void replace(std::string_view part, std::string_view by) {
    const auto before = static_cast<int64_t>(base::count_code_points(part));
    const auto after = static_cast<int64_t>(base::count_code_points(by));
    if (after == 0) return remove(before);
    int64_t written = 0;
    for (size_t at = 0; at < by.size(); ++written) {
      flush();
      const char32_t c = base::next_code_point(by, at);
      held_ = {c, written + 1 > before ? 1 : written + 1 == after ? after - before : 0};
      holds_ = begun_ = true;
    }
  }
  void flush() {
    if (holds_) rewriter_.put(held_.c, held_.change);
    holds_ = false;
  }

 private:
  void remove(int64_t count) {
    if (holds_)
      held_.change -= count;
    else if (begun_)
      rewriter_.skip(count);
    else
      late_ = true;
  }

  struct Held {
    char32_t c;
    int64_t change;  // see Rewriter::put
  };
  std::string_view text_;
  Rewriter rewriter_;
  Held held_{};
  bool holds_ = false, begun_ = false, late_ = false;
};

// Applies a charsmap as `tokenizers` does: to each grapheme cluster of less than six bytes as a whole, if the
// map knows a beginning of it, else to each of its characters.
class Precompiled {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {
    for (unsigned char c = 0; c < 0x80; ++c) {
      const char byte = static_cast<char>(c);
      stays_[c] = !map_.find({&byte, 1});
    }
  }

  bool operator()(const Piece& piece, Buffer& out, MatchSpace&) const {
    const std::string_view text = piece.text;
    Replacer replacer(piece, out);
    bool changed = false;
    size_t kept = 0;  // text[kept, at) is not written yet
    const auto replaced = [&](size_t begin, size_t end) {
      const std::optional<std::string_view> by = map_.find(text.substr(begin, end - begin));
      if (!by) return false;
      replacer.keep(kept, begin);
      replacer.replace(text.substr(begin, end - begin), *by);
      kept = end;
      return changed = true;
    };
    for (size_t at = 0; at < text.size();) {
      if (alone(text, at) && stays_[static_cast<unsigned char>(text[at])]) {
        ++at;
        continue;
      }
      const size_t end = cluster_end(text, at);
      if (end - at > kMostCluster || !replaced(at, end)) {
        while (at < end) {
          const size_t begin = at;
          base::next_code_point(text, at);
          replaced(begin, at);
        }
      }
      at = end;
    }
    replacer.keep(kept, text.size());
    replacer.flush();
    return changed;
  }

 private:
  // Returns whether an ASCII character forms its own cluster.
  static bool alone(std::string_view text, size_t at) {
    if (static_cast<unsigned char>(text[at]) >= 0x80) return false;
    return at + 1 == text.size() ||
           (static_cast<unsigned char>(text[at + 1]) < 0x80 && !(text[at] == '\r' && text[at + 1] == '\n'));
  }

  Charsmap map_;
  bool stays_[0x80] = {};  // for ASCII characters
};
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

Normalizer read_precompiled(const Field& field) {
  const Field map = field.at("precompiled_charsmap");
  return Precompiled(Charsmap(decoded(map), map.where()));
}

}  // namespace trl::text
