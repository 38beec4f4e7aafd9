// The lexer: data up to the next tag, then the tag's tokens up to the end of the tag outside all brackets.
#include "text/chat_template/parser.h"

#include <cctype>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

// Turns "\r\n" and "\r" into "\n"; drops one newline at the end.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), text_(source_) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) root();
    push(TokenType::end, "");
    return std::move(tokens_);
  }

 private:
  bool starts(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void push(TokenType type, std::string_view value) { tokens_.push_back({type, line_, std::string(value)}); }
  void advance_to(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    if (end > at_) line_starting_ = text_[end - 1] == '\n';
    at_ = end;
  }
  void advance(size_t count) { advance_to(at_ + count); }
  void skip_space() {
    const std::string_view rest = strip(text_.substr(at_), Side::left);
    advance_to(text_.size() - rest.size());
  }

  // Returns the rest of the data before a tag, depending on the tag's sign.
  std::string_view kept(std::string_view data, char sign, bool variable) const {
    if (sign == '-') return strip(data, Side::right);
    if (sign == '+' || variable) return data;
    const size_t newline = data.rfind('\n');
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (begin == 0 && !line_starting_) return data;
    return strip(data.substr(begin), Side::left).empty() ? data.substr(0, begin) : data;
  }

  void push_data(size_t end, char sign, bool variable) {
    const std::string_view data = kept(text_.substr(at_, end - at_), sign, variable);
    if (!data.empty()) push(TokenType::data, data);
    advance_to(end);
  }

  static char sign_of(char c) { return c == '-' || c == '+' ? c : '\0'; }

  void root() {
    size_t open = at_;
    while (true) {
      open = text_.find('{', open);
      if (open == std::string_view::npos || open + 1 >= text_.size()) {
        push(TokenType::data, text_.substr(at_));
        advance_to(text_.size());
        return;
      }
      const char kind = text_[open + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++open;
    }
    const char kind = text_[open + 1];
    const char sign = open + 2 < text_.size() ? sign_of(text_[open + 2]) : '\0';
    push_data(open, sign, kind == '{');
    if (kind == '%' && raw()) return;
    const int opened = line_;
    if (kind != '#') push(kind == '{' ? TokenType::variable_begin : TokenType::block_begin, "");
    advance(sign != '\0' ? 3 : 2);
    if (kind == '#')
      comment(opened);
    else
      tag(kind == '{', opened);
  }

  // Skips white space after a tag's end: all of it for "-", otherwise one newline after a block.
  void after_end(char sign, bool trims) {
    if (sign == '-')
      skip_space();
    else if (sign != '+' && trims && peek() == '\n')
      advance(1);
  }

  void comment(int opened) {
    const size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) fail_at(opened, "a comment is not closed: '#}' is missing");
    const char sign = end > at_ ? sign_of(text_[end - 1]) : '\0';
    advance_to(end + 2);
    after_end(sign, true);
  }

  // Reads "{% raw %}" up to "{% endraw %}"; false: it is another tag.
  bool raw() {
    const size_t saved = at_;
    const int opened = line_;
    size_t after = tag_end(at_, "raw");
    if (after == std::string_view::npos || (after > 2 && text_[after - 3] == '+')) return false;
    const char sign = sign_of(text_[after - 3]);
    advance_to(after);
    if (sign == '-') skip_space();
    for (size_t open = text_.find("{%", at_); open != std::string_view::npos;
         open = text_.find("{%", open + 1)) {
      after = tag_end(open, "endraw");
      if (after == std::string_view::npos) continue;
      push_data(open, sign_of(text_[open + 2]), false);
      advance_to(after);
      after_end(sign_of(text_[after - 3]), true);
      return true;
    }
    at_ = saved;
    fail_at(opened, "raw is not closed: 'endraw' is missing");
  }

  // Returns the end of "{%[+-]? word [+-]?%}" that begins at open, or npos.
  size_t tag_end(size_t open, std::string_view word) const {
    std::string_view rest = text_.substr(open + 2);
    if (!rest.empty() && sign_of(rest[0]) != '\0') rest.remove_prefix(1);
    rest = strip(rest, Side::left);
    if (!rest.starts_with(word)) return std::string_view::npos;
    rest = strip(rest.substr(word.size()), Side::left);
    if (!rest.empty() && sign_of(rest[0]) != '\0') rest.remove_prefix(1);
    if (!rest.starts_with("%}")) return std::string_view::npos;
    return text_.size() - rest.size() + 2;
  }

  void tag(bool variable, int opened) {
    const std::string_view close = variable ? "}}" : "%}";
    brackets_.clear();
    while (true) {
      skip_space();
      if (at_ >= text_.size())
        fail_at(opened, std::string("a tag is not closed: '") + std::string(close) + "' is missing");
      const char sign = brackets_.empty() ? sign_of(peek()) : '\0';
      const bool signed_end =
          (sign == '-' || (sign == '+' && !variable)) && text_.substr(at_ + 1).starts_with(close);
      if (brackets_.empty() && (starts(close) || signed_end)) {
        push(variable ? TokenType::variable_end : TokenType::block_end, "");
        advance(signed_end ? 3 : 2);
        after_end(signed_end ? sign : '\0', !variable);
        return;
      }
      token();
    }
  }

  void token() {
    if (digit(peek()))
      number();
    else if (peek() == '"' || peek() == '\'')
      string();
    else if (!name())
      symbol();
  }

  // Returns the end of digits with single underscores between.
  size_t digits_end(size_t at) const {
    while (at < text_.size() &&
           (digit(text_[at]) || (text_[at] == '_' && at + 1 < text_.size() && digit(text_[at + 1]))))
      ++at;
    return at;
  }

  void number() {
    const char kind = static_cast<char>(peek(1) | 0x20);
    if (peek() == '0' && (kind == 'x' || kind == 'o' || kind == 'b')) {
      size_t end = at_ + 2;
      while (end < text_.size() &&
             (text_[end] == '_' || std::isxdigit(static_cast<unsigned char>(text_[end]))))
        ++end;
      push_number(TokenType::integer, end);
      return;
    }
    const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
    size_t end = digits_end(at_);
    const size_t whole = end;
    if (!after_dot) {
      if (end + 1 < text_.size() && text_[end] == '.' && digit(text_[end + 1])) end = digits_end(end + 1);
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < text_.size() && sign_of(text_[exponent]) != '\0') ++exponent;
        if (exponent < text_.size() && digit(text_[exponent])) end = digits_end(exponent);
      }
    }
    const std::string_view digits = text_.substr(at_, end - at_);
    if (end == whole && digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of("0_") != std::string_view::npos)
      fail_at(line_, "the integer " + std::string(digits) + " begins with 0");
    push_number(end == whole ? TokenType::integer : TokenType::real, end);
  }

  void push_number(TokenType type, size_t end) {
    std::string value(text_.substr(at_, end - at_));
    std::erase(value, '_');
    push(type, value);
    advance_to(end);
  }

  bool name() {
    size_t end = at_;
    while (end < text_.size()) {
      size_t next = end;
      if (!is_word(base::next_code_point(text_, next))) break;
      end = next;
    }
    if (end == at_) return false;
    push(TokenType::name, text_.substr(at_, end - at_));
    advance_to(end);
    return true;
  }

  void string() {
    const char quote = peek();
    const int opened = line_;
    std::string value;
    size_t at = at_ + 1;
    while (at < text_.size() && text_[at] != quote)
      if (text_[at] == '\\')
        at = escape(at + 1, value, opened);
      else
        value += text_[at++];
    if (at >= text_.size()) fail_at(opened, "a string is not closed");
    tokens_.push_back({TokenType::text, opened, std::move(value)});
    advance_to(at + 1);
  }

  // Reads the escape whose letter is at `at`; returns the position at which the string continues.
  size_t escape(size_t at, std::string& value, int line) {
    if (at >= text_.size()) return at;
    const char c = text_[at];
    constexpr std::string_view kLetters = "\\'\"abfnrtv";
    constexpr std::string_view kMeans = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
      value += kMeans[i];
      return at + 1;
    }
    if (c == '\n') return at + 1;
    if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      const size_t end = std::min(at + 3, text_.size());
      for (; at < end && text_[at] >= '0' && text_[at] <= '7'; ++at)
        code = code * 8 + static_cast<uint32_t>(text_[at] - '0');
      base::append_utf8(value, code);
      return at;
    }
    const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N') fail_at(line, "a named character \\N{...} is not supported; write \\uXXXX");
    if (count == 0) {  // not an escape: the backslash stays
      value += '\\';
      return at;
    }
    uint32_t code = 0;
    for (size_t i = 1; i <= count; ++i) {
      const char h = at + i < text_.size() ? text_[at + i] : ' ';
      if (!std::isxdigit(static_cast<unsigned char>(h))) fail_at(line, "a truncated \\x, \\u or \\U escape");
      code = code * 16 + static_cast<uint32_t>(digit(h) ? h - '0' : (h | 0x20) - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      fail_at(line, "an escape that is not a character");
    base::append_utf8(value, code);
    return at + 1 + count;
  }

  void symbol() {
    constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    size_t size = kSingle.find(peek()) == std::string_view::npos ? 0 : 1;
    for (const std::string_view two : kDouble)
      if (starts(two)) size = 2;
    if (size == 0) {
      size_t end = at_;
      base::next_code_point(text_, end);
      fail_at(line_, "unexpected character '" + std::string(text_.substr(at_, end - at_)) + "'");
    }
    const std::string_view word = text_.substr(at_, size);
    const char c = word[0];
    if (c == '(' || c == '[' || c == '{') brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty() || brackets_.back() != c) {
        const std::string expected =
            brackets_.empty() ? "" : std::string(", expected '") + brackets_.back() + "'";
        fail_at(line_, std::string("unexpected '") + c + "'" + expected);
      }
      brackets_.pop_back();
    }
    push(TokenType::symbol, word);
    advance(size);
  }

  std::string source_;
  std::string_view text_;
  std::vector<Token> tokens_;
  std::string brackets_;  // the expected closing brackets
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  constexpr std::string_view kNames[] = {"text",           "{{", "}}", "{%", "%}", "", "string", "", "", "",
                                         "end of template"};
  const std::string_view name = kNames[static_cast<size_t>(token.type)];
  return name.empty() ? token.value : std::string(name);
}

void fail_at(int line, std::string_view message) {
  throw Error(Status::format, fmt::format("chat template, line {}: {}", line, message), {}, 0,
              {"chat template", line});
}

}  // namespace trl::text::jinja
