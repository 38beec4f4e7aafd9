// Regexes are PCRE2's, with UTF, UCP and its JIT. The text was checked to be UTF-8, so the library does not
// check it again.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/pattern.h"

#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/tokenizer/settings.h"

namespace trl::text {

namespace {

constexpr size_t kMaxPattern = 1 << 16;
constexpr size_t kJitStack = 16 << 20;  // bytes, reserved when 32 KiB of the machine stack do not do
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kDepthLimit = 1'000'000;
constexpr uint32_t kHeapLimit = 256 << 10;  // KiB

std::string reason(int code) {
  PCRE2_UCHAR8 text[200] = {};
  pcre2_get_error_message_8(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Well-known split patterns are matched by hand if every byte that decides is ASCII, otherwise by the regex.
enum class LetterKind : uint8_t { unknown, letter, digit, space, other };

constexpr std::array<LetterKind, 256> kKinds = [] {
  std::array<LetterKind, 256> kinds{};  // the characters not named here are left to the regex
  for (size_t c = '!'; c <= '~'; ++c) kinds[c] = LetterKind::other;
  for (size_t c = '0'; c <= '9'; ++c) kinds[c] = LetterKind::digit;
  for (size_t c = 'a'; c <= 'z'; ++c) kinds[c] = kinds[c - 'a' + 'A'] = LetterKind::letter;
  for (const char c : {' ', '\t', '\n', '\v', '\f', '\r'})
    kinds[static_cast<unsigned char>(c)] = LetterKind::space;
  return kinds;
}();

LetterKind kind_at(std::string_view text, size_t at) { return kKinds[static_cast<unsigned char>(text[at])]; }

// Returns the end of the run of characters of one kind; 0: the character that ends it is not known.
size_t run_end(std::string_view text, size_t at, LetterKind kind) {
  while (at < text.size() && kind_at(text, at) == kind) ++at;
  return at < text.size() && kind_at(text, at) == LetterKind::unknown ? 0 : at;
}

// Finds the spaces before a word; the last of several belongs to the word.
size_t spaces_before(std::string_view text, size_t begin, size_t end) {
  return end < text.size() && end - begin > 1 ? end - 1 : end;
}

// Returns the end of the match that begins at `at`; 0: not known from only ASCII.
size_t gpt2_match(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"})
      if (text.substr(at + 1).starts_with(ending)) return at + 1 + ending.size();
  }
  const bool leads = text[at] == ' ' && at + 1 < text.size() && kind_at(text, at + 1) != LetterKind::space;
  const size_t begin = leads ? at + 1 : at;
  const LetterKind kind = kind_at(text, begin);
  if (kind == LetterKind::unknown) return 0;
  const size_t end = run_end(text, begin, kind);
  return kind == LetterKind::space && end > 0 ? spaces_before(text, begin, end) : end;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool is_newline(char c) { return c == '\r' || c == '\n'; }

// Returns the length of 's, 't, 're ... in any case; 0: none.
size_t contraction(std::string_view text, size_t at) {
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    if (text.size() - at <= ending.size()) continue;
    if (lower(text[at + 1]) == ending[0] && (ending.size() == 1 || lower(text[at + 2]) == ending[1]))
      return 1 + ending.size();
  }
  return 0;
}

// Matches white space up to its last line end, else as GPT-2's pattern does.
size_t space_match(std::string_view text, size_t at) {
  const size_t end = run_end(text, at, LetterKind::space);
  for (size_t line = end; line > at; --line)
    if (is_newline(text[line - 1])) return line;
  return end > 0 ? spaces_before(text, at, end) : 0;
}

// Matches Llama 3's and Qwen's patterns, by the number of digits in a group.
template <size_t digits>
size_t word_match(std::string_view text, size_t at) {
  const LetterKind kind = kind_at(text, at);
  const LetterKind next = at + 1 < text.size() ? kind_at(text, at + 1) : LetterKind::space;
  if (kind == LetterKind::letter) return run_end(text, at, LetterKind::letter);
  if (kind == LetterKind::unknown) return 0;
  if (kind == LetterKind::digit) {
    size_t end = at + 1;
    while (end < text.size() && end - at < digits && kind_at(text, end) == LetterKind::digit) ++end;
    return end < text.size() && end - at < digits && kind_at(text, end) == LetterKind::unknown ? 0 : end;
  }
  if (next == LetterKind::unknown) return 0;
  if (text[at] == '\'') {
    if (const size_t length = contraction(text, at)) return at + length;
  }
  if (next == LetterKind::letter && !is_newline(text[at])) return run_end(text, at + 1, LetterKind::letter);
  if (kind == LetterKind::space && !(text[at] == ' ' && next == LetterKind::other))
    return space_match(text, at);
  size_t end = run_end(text, kind == LetterKind::space ? at + 1 : at, LetterKind::other);
  while (end > 0 && end < text.size() && is_newline(text[end])) ++end;
  return end;
}

// match: as gpt2_match
Pattern make_ascii_pattern(std::string_view regex, size_t (*match)(std::string_view, size_t)) {
  return [regex = std::make_shared<const Regex>(regex), match](std::string_view text, MatchSpace& space,
                                                               PartSink part) {
    size_t end = 0;
    for (size_t at = 0; at < text.size(); at = end) {
      end = match(text, at);
      if (end == 0) {
        Regex::Match found{};
        if (!regex->find(text, at, found, space)) found = {text.size(), text.size()};
        if (found.begin > at) part(at, found.begin, false);
        if (found.begin == text.size()) return;
        at = found.begin;
        end = found.end;
      }
      part(at, end, true);
    }
  };
}

}  // namespace

struct MatchSpace::State {
  pcre2_match_data_8* data = pcre2_match_data_create_8(1, nullptr);
  pcre2_match_context_8* context = pcre2_match_context_create_8(nullptr);
  pcre2_jit_stack_8* stack = nullptr;

  State() {
    if (!data || !context) throw std::bad_alloc();
    pcre2_set_match_limit_8(context, kMatchLimit);
    pcre2_set_depth_limit_8(context, kDepthLimit);
    pcre2_set_heap_limit_8(context, kHeapLimit);
  }
  ~State() {
    pcre2_match_data_free_8(data);
    pcre2_match_context_free_8(context);
    pcre2_jit_stack_free_8(stack);
  }
};

MatchSpace::MatchSpace() : state_(std::make_unique<State>()) {}
MatchSpace::~MatchSpace() = default;

struct Regex::Compiled {
  std::string source;
  pcre2_code_8* code = nullptr;
  bool jit = false;
  ~Compiled() { pcre2_code_free_8(code); }
};

Regex::Regex(std::string_view oniguruma) : compiled_(std::make_unique<Compiled>()) {
  if (oniguruma.size() > kMaxPattern)
    fail(Status::format, "a pattern of {} bytes: at most {} are read", oniguruma.size(), kMaxPattern);
  compiled_->source = oniguruma;
  const std::string pattern = pcre_from_oniguruma(oniguruma);
  const std::unique_ptr<pcre2_compile_context_8, void (*)(pcre2_compile_context_8*)> context(
      pcre2_compile_context_create_8(nullptr), pcre2_compile_context_free_8);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline_8(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit_8(context.get(), 100);
  int code = 0;
  size_t offset = 0;
  compiled_->code = pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE, &code,
                                    &offset, context.get());
  if (!compiled_->code) fail(Status::format, "the pattern '{}' is not valid: {}", oniguruma, reason(code));
  // Without it the interpreter runs.
  compiled_->jit = pcre2_jit_compile_8(compiled_->code, PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

bool Regex::find(std::string_view text, size_t from, Match& match, MatchSpace& space) const {
  MatchSpace::State& state = *space.state_;
  const auto search = [&] {
    const auto match_in = compiled_->jit ? pcre2_jit_match_8 : pcre2_match_8;
    return match_in(compiled_->code, reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), from,
                    PCRE2_NO_UTF_CHECK, state.data, state.context);
  };
  int found = search();
  if (found == PCRE2_ERROR_JIT_STACKLIMIT && !state.stack) {
    state.stack = pcre2_jit_stack_create_8(32 << 10, kJitStack, nullptr);
    pcre2_jit_stack_assign_8(state.context, nullptr, state.stack);
    found = search();
  }
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    fail(Status::unsupported, "the pattern '{}' cannot be searched in a text of {} bytes from byte {}: {}",
         compiled_->source, text.size(), from, reason(found));
  const size_t* range = pcre2_get_ovector_pointer_8(state.data);
  match = {range[0], range[1]};
  return true;
}

Pattern regex_pattern(std::string_view oniguruma) {
  return [regex = std::make_shared<const Regex>(oniguruma)](std::string_view text, MatchSpace& space,
                                                            PartSink part) {
    size_t done = 0, from = 0;
    bool matched = false;
    Regex::Match match{};
    while (from <= text.size() && regex->find(text, from, match, space)) {
      // An empty match right after a match is skipped.
      if (match.begin == match.end && matched && match.end == done) {
        if (match.end >= text.size()) break;
        from = match.end;
        base::next_code_point(text, from);
        continue;
      }
      if (done != match.begin) part(done, match.begin, false);
      part(match.begin, match.end, true);
      done = from = match.end;
      matched = true;
    }
    if (done != text.size()) part(done, text.size(), false);
  };
}

Pattern character_pattern(bool (*matches)(char32_t)) {
  return [matches](std::string_view text, MatchSpace&, PartSink part) {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      if (!matches(base::next_code_point(text, at))) continue;
      if (done != begin) part(done, begin, false);
      part(begin, at, true);
      done = at;
    }
    if (done != text.size()) part(done, text.size(), false);
  };
}

Pattern literal_pattern(std::string literal) {
  if (literal.empty()) return regex_pattern("");
  return [literal = std::move(literal)](std::string_view text, MatchSpace&, PartSink part) {
    size_t done = 0;
    for (size_t at = 0; (at = text.find(literal, at)) != std::string_view::npos; at = done) {
      if (done != at) part(done, at, false);
      done = at + literal.size();
      part(at, done, true);
    }
    if (done != text.size()) part(done, text.size(), false);
  };
}

Pattern read_pattern(const Field& field) {
  if (const std::optional<Field> literal = field.find("String")) return literal_pattern(literal->text());
  const Field regex = field.at("Regex");
  try {
    Pattern known = ascii_pattern(regex.text());
    return known ? known : regex_pattern(regex.text());
  } catch (const Error& error) {
    throw error.with(fmt::format("{}: {}", regex.where(), error.message()));
  }
}

Pattern ascii_pattern(std::string_view regex) {
  if (regex == kGpt2Pattern) return make_ascii_pattern(regex, gpt2_match);
  if (regex == kLlama3Split) return make_ascii_pattern(regex, word_match<3>);
  if (regex == kQwen2Split || regex == kQwen35Split) return make_ascii_pattern(regex, word_match<1>);
  return nullptr;
}

}  // namespace trl::text
