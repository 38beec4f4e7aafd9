// A word is a link when what remains of it without brackets and punctuation around it is an address of the
// web or of a mailbox.
#include "text/chat_template/links.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

// A host: with any top-level domain after a scheme or www, with only common domains otherwise, or an IP
// address after a scheme; then a port and a path.
constexpr const char* kWeb =
    "(?:(?:https?://|www\\.)(?:[\\w%-]++\\.)*(?:[a-z]{2,63}|xn--[\\w%]{2,59})"
    "|(?:[\\w%-]{2,63}\\.)+(?:com|edu|gov|info|int|mil|net|org)"
    "|https?://(?:\\d{1,3}(?:\\.\\d{1,3}){3}|\\[(?:[\\da-f]{0,4}:){2}(?:[\\da-f]{0,4}:?){1,6}\\]))"
    "(?::\\d{1,5})?(?:[/?#].*+)?\\z";

struct FreeWebPattern {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeWebMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

using WebPattern = std::unique_ptr<pcre2_code, FreeWebPattern>;

WebPattern compile_web() {
  int error = 0;
  PCRE2_SIZE offset = 0;
  WebPattern code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kWeb), PCRE2_ZERO_TERMINATED,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_CASELESS | PCRE2_DOTALL,
                                &error, &offset, nullptr));
  if (!code) fail(Status::internal, "PCRE2 does not compile the pattern of web addresses ({})", error);
  return code;
}

bool is_web_address(Run& run, std::string_view word) {
  static const pcre2_code* const pattern = compile_web().release();      // kept while the process ends
  if (word.find_first_of(".:") == std::string_view::npos) return false;  // every address has one
  run.spend(1 + static_cast<int64_t>(word.size() / 8));
  const std::unique_ptr<pcre2_match_data, FreeWebMatch> match(pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  const int result = pcre2_match(pattern, reinterpret_cast<PCRE2_SPTR>(word.data()), word.size(), 0,
                                 PCRE2_NO_UTF_CHECK, match.get(), nullptr);
  if (result < 0 && result != PCRE2_ERROR_NOMATCH) run.fail("urlize: a word takes too long to match");
  return result > 0;
}

// Something, an at sign, and a host that begins with a word's letter and ends in a dot and such letters.
bool is_mailbox(std::string_view word) {
  const size_t sign = word.rfind('@');
  if (sign == std::string_view::npos || sign == 0) return false;
  const std::string_view host = word.substr(sign + 1);
  size_t letters = 0;  // since the last dot
  bool dot = false, first = true;
  for (size_t at = 0; at < host.size(); first = false) {
    const char32_t c = base::next_code_point(host, at);
    if (!is_word(c) && (first || (c != '.' && c != '-'))) return false;
    dot = dot || c == '.';
    letters = is_word(c) ? letters + 1 : 0;
    if (c == '-') letters = 0;
  }
  const size_t last = host.rfind('.');
  return dot && letters > 0 && host.find('-', last) == std::string_view::npos;
}

struct Word {
  std::string_view head, middle, tail;
};

// Opening brackets before the address, closing ones and punctuation after it.
Word without_punctuation(std::string_view word) {
  const std::string_view whole = word;
  const auto cut = [&](auto names, bool front) {
    for (const std::string_view name : names) {
      if (front ? !word.starts_with(name) : !word.ends_with(name)) continue;
      if (front) word.remove_prefix(name.size());
      if (!front) word.remove_suffix(name.size());
      return true;
    }
    return false;
  };
  while (cut(std::array<std::string_view, 3>{"(", "<", "&lt;"}, true)) {
  }
  const size_t begin = whole.size() - word.size();
  while (cut(std::array<std::string_view, 6>{")", ">", ".", ",", "\n", "&gt;"}, false)) {
  }
  return {whole.substr(0, begin), word, whole.substr(begin + word.size())};
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

// Closing brackets that belong to ones opened inside the address are taken back from what was cut off.
void balance(Word& word) {
  constexpr std::pair<std::string_view, std::string_view> kBrackets[] = {
      {"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
  for (const auto& [open, close] : kBrackets) {
    const size_t opened = count_of(word.middle, open);
    if (opened <= count_of(word.middle, close)) continue;
    size_t taken = 0;
    for (size_t i = std::min(opened, count_of(word.tail, close)); i > 0; --i)
      taken = word.tail.find(close, taken) + close.size();
    word.middle = std::string_view(word.middle.data(), word.middle.size() + taken);
    word.tail.remove_prefix(taken);
  }
}

std::string shown(std::string_view address, const LinkStyle& style) {
  if (!style.limit) return std::string(address);
  const auto count = static_cast<int64_t>(base::count_code_points(address));
  if (count <= *style.limit) return std::string(address);
  const int64_t kept = *style.limit < 0 ? std::max<int64_t>(0, count + *style.limit) : *style.limit;
  const Text text{std::string(address), static_cast<size_t>(count), false};
  return std::string(address.substr(0, byte_offset(text, static_cast<size_t>(kept)))) + "...";
}

std::string linked(Run& run, std::string_view address, const LinkStyle& style) {
  const auto link = [](std::string_view target, std::string_view attributes, std::string_view text) {
    return fmt::format("<a href=\"{}\"{}>{}</a>", target, attributes, text);
  };
  if (is_web_address(run, address)) {
    const bool complete = address.starts_with("https://") || address.starts_with("http://");
    return link((complete ? "" : "https://") + std::string(address), style.attributes, shown(address, style));
  }
  constexpr std::string_view kMail = "mailto:";
  if (address.starts_with(kMail) && is_mailbox(address.substr(kMail.size())))
    return link(address, "", address.substr(kMail.size()));
  const bool plain = !address.starts_with("www.") && !address.starts_with('@') &&
                     address.find(':') == std::string_view::npos;
  if (plain && is_mailbox(address)) return link(std::string(kMail) + std::string(address), "", address);
  std::string out(address);
  for (const std::string& scheme : style.schemes) {
    if (out != scheme && out.starts_with(scheme)) out = link(out, style.attributes, out);
  }
  return out;
}

}  // namespace

std::string with_links(Run& run, std::string_view escaped, const LinkStyle& style) {
  Writer out(run);
  run.spend(static_cast<int64_t>(escaped.size() / 8));
  const auto write_word = [&](std::string_view text) {
    if (text.empty()) return;
    Word word = without_punctuation(text);
    balance(word);
    out.append(word.head);
    out.append(linked(run, word.middle, style));
    out.append(word.tail);
  };
  size_t begin = 0;
  for (size_t at = 0; at < escaped.size();) {
    const size_t here = at;
    if (!is_space(base::next_code_point(escaped, at))) continue;
    write_word(escaped.substr(begin, here - begin));
    out.append(escaped.substr(here, at - here));
    begin = at;
  }
  write_word(escaped.substr(begin));
  return out.take();
}

}  // namespace trl::text::jinja
