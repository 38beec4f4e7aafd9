// NFC, NFD, NFKC, NFKD with the origin of each character. utf8proc knows the data; the algorithm is that of
// Unicode's annex 15, and the origins are counted as `tokenizers` does: a composed character has the origin
// of its first part, further parts of a decomposed one are insertions.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/text/utf8.h"
#include "text/tokenizer/characters.h"
#include "text/tokenizer/normalizer.h"

namespace trl::text {

namespace {
struct Part {
  char32_t c;
  int64_t change;  // see Rewriter::put
  int combining;   // canonical combining class
};

// Characters assigned after Unicode 9 that have a combining class or a decomposition by now (Unicode 15).
constexpr CharacterRange kLater[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},
    {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},
    {0x10781, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

bool is_later(char32_t c) { return within(kLater, c); }

const utf8proc_property_t& property(char32_t c) {
  return *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
}

// The composition of two characters, or 0.
char32_t compose(char32_t first, char32_t second) {
  std::array<utf8proc_int32_t, 2> pair{static_cast<utf8proc_int32_t>(first),
                                       static_cast<utf8proc_int32_t>(second)};
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const bool composed = utf8proc_normalize_utf32(pair.data(), 2, kOptions) == 1;
  const auto c = static_cast<char32_t>(pair[0]);
  return composed && !is_later(c) ? c : 0;
}

class Form {
 public:
  explicit Form(UnicodeForm form) : composes_(form.composes), compatible_(form.compatible) {}

  // Only from the last settled character before an unsettled one to the next settled one is work done.
  bool operator()(const Piece& piece, Buffer& out, MatchSpace&) const {
    const std::string_view text = piece.text;
    Rewriter rewriter(piece, out);
    std::vector<Part> parts;
    bool changed = false;
    size_t begin = 0;  // start of the last settled character
    for (size_t at = 0; at < text.size();) {
      const size_t here = at;
      if (settled(base::next_code_point(text, at))) {
        begin = here;
        continue;
      }
      size_t end = at;
      while (end < text.size()) {
        size_t behind = end;
        if (settled(base::next_code_point(text, behind))) break;
        end = behind;
      }
      if (!changed) out.text.reserve(text.size());
      changed = true;
      rewriter.copy(begin);
      rewrite(text.substr(begin, end - begin), parts, rewriter);
      rewriter.skip_to(end);
      begin = at = end;
    }
    if (changed) rewriter.copy(text.size());
    return changed;
  }

 private:
  // Returns whether c neither changes, nor is reordered, nor joins the character before it. A composed letter
  // is settled only as long as no mark follows it, which may belong between its parts.
  bool settled(char32_t c) const {
    if (c < (compatible_ ? 0xA0u : composes_ ? 0x300u : 0xC0u)) return true;
    if (c >= 0xAC00 && c <= 0xD7A3) return composes_;                                     // Hangul syllables
    if ((c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2)) return !composes_;  // vowels and finals
    const utf8proc_property_t& p = property(c);
    const bool whole = p.decomp_seqindex == UINT16_MAX || (!compatible_ && p.decomp_type != 0);
    return (whole && p.combining_class == 0 && !(composes_ && is_mark(c))) || is_later(c);
  }

  void decompose(std::string_view text, std::vector<Part>& parts) const {
    parts.clear();
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                        (compatible_ ? UTF8PROC_COMPAT : 0));
    for (size_t at = 0; at < text.size();) {
      const char32_t c = base::next_code_point(text, at);
      if (is_later(c)) {
        parts.push_back({c, 0, 0});
        continue;
      }
      std::array<utf8proc_int32_t, 32> buffer{};  // the longest decomposition has 18
      int boundary = 0;
      const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer.data(),
                                                 buffer.size(), options, &boundary);
      for (utf8proc_ssize_t i = 0; i < count; ++i) {
        const auto d = static_cast<char32_t>(buffer[static_cast<size_t>(i)]);
        parts.push_back({d, i == 0 ? 0 : 1, property(d).combining_class});
      }
    }
    // Canonical order: runs of combining characters are sorted by class, stable.
    for (auto run = parts.begin(); run != parts.end();) {
      if (run->combining == 0) {
        ++run;
        continue;
      }
      const auto end = std::find_if(run, parts.end(), [](const Part& p) { return p.combining == 0; });
      std::stable_sort(run, end, [](const Part& a, const Part& b) { return a.combining < b.combining; });
      run = end;
    }
  }

  void rewrite(std::string_view text, std::vector<Part>& parts, Rewriter& rewriter) const {
    decompose(text, parts);
    if (composes_) recompose(parts);
    for (const Part& part : parts) rewriter.put(part.c, part.change);
  }

  static void recompose(std::vector<Part>& parts) {
    size_t kept = 0;  // parts[0, kept) are done
    size_t starter = SIZE_MAX;
    int last = -1;  // class of the last kept character after the starter; -1: none
    for (const Part part : parts) {
      if (starter != SIZE_MAX && last < part.combining) {
        if (const char32_t c = compose(parts[starter].c, part.c)) {
          parts[starter].c = c;
          parts[starter].change += part.change - 1;
          continue;
        }
      }
      parts[kept] = part;
      if (part.combining == 0) {
        starter = kept;
        last = -1;
      } else if (starter != SIZE_MAX) {
        last = part.combining;
      }
      ++kept;
    }
    parts.resize(kept);
  }

  bool composes_, compatible_;
};
}  // namespace

Normalizer unicode_form(UnicodeForm form) { return Form(form); }

}  // namespace trl::text
