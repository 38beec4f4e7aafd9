// Applies a charsmap as `tokenizers` does: to each grapheme cluster of less than six bytes as a whole, if the
// map knows a beginning of it, else to each of its characters.
#include <utf8proc.h>

#include "base/text/utf8.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/rewriter.h"

namespace trl::text {

namespace {
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
    if (holds_) {
      held_.change -= count;
    } else if (begun_) {
      rewriter_.skip(count);
    } else {
      late_ = true;
    }
  }

  struct Held {
    char32_t c;
    int64_t change;  // see Rewriter::put
  };
  std::string_view text_;
  Rewriter rewriter_;
  Held held_{};
  bool holds_ = false;
  bool begun_ = false;
  bool late_ = false;
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {
    for (unsigned char c = 0; c < 0x80; ++c) {
      const char byte = static_cast<char>(c);
      stays_[c] = !map_.find({&byte, 1});
    }
  }

  bool apply(const Piece& piece, Buffer& out, MatchSpace&) const override {
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

std::unique_ptr<Normalizer> precompiled_form(Charsmap map) {
  return std::make_unique<Precompiled>(std::move(map));
}

}  // namespace trl::text
