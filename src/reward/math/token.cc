#include "reward/math/token.h"

#include <algorithm>
#include <array>

#include "reward/math/characters.h"

namespace trl::reward::math {

namespace {

struct Spelling {
  std::string_view text, command;
};

constexpr std::array kSpellings = {
    Spelling{"\u2212", "minus"},  Spelling{"\u00d7", "times"},   Spelling{"\u00f7", "div"},
    Spelling{"\u03b1", "alpha"},  Spelling{"\u03b2", "beta"},    Spelling{"\u03b3", "gamma"},
    Spelling{"\u03b4", "delta"},  Spelling{"\u03b5", "epsilon"}, Spelling{"\u03b8", "theta"},
    Spelling{"\u03bb", "lambda"}, Spelling{"\u03bc", "mu"},      Spelling{"\u03c0", "pi"},
    Spelling{"\u03c1", "rho"},    Spelling{"\u03c3", "sigma"},   Spelling{"\u03c4", "tau"},
    Spelling{"\u03c6", "phi"},    Spelling{"\u03c9", "omega"},
};

// Several names of one thing.
constexpr std::array kNames = {
    Spelling{"ge", "geq"},
    Spelling{"geqslant", "geq"},
    Spelling{"gt", ">"},
    Spelling{"le", "leq"},
    Spelling{"leqslant", "leq"},
    Spelling{"lt", "<"},
    Spelling{"ne", "neq"},
    Spelling{"dbinom", "binom"},
    Spelling{"tbinom", "binom"},
    Spelling{"arsinh", "arcsinh"},
    Spelling{"arcosh", "arccosh"},
    Spelling{"artanh", "arctanh"},
    Spelling{"overline", "bar"},
    Spelling{"overrightarrow", "vec"},
    Spelling{"widetilde", "tilde"},
    Spelling{"widehat", "hat"},
    Spelling{"mp", "pm"},
    Spelling{"lvert", "|"},
    Spelling{"rvert", "|"},
    Spelling{"vert", "|"},
    Spelling{"Pi", "pi"},
};

constexpr auto kSpaces = std::to_array<std::string_view>({"quad", "qquad", "thinspace", "enspace", "limits"});
constexpr auto kAccents =
    std::to_array<std::string_view>({"bar", "breve", "check", "dot", "ddot", "hat", "mathbb", "mathcal",
                                     "mathfrak", "mathscr", "tilde", "vec"});

bool among(std::string_view name, auto& list) { return std::ranges::find(list, name) != std::end(list); }

class Lexer {
 public:
  explicit Lexer(std::string_view latex) : in_(latex) {}

  std::vector<Token> run() {
    while (at_ < in_.size()) step();
    out_.push_back({});
    return std::move(out_);
  }

 private:
  void put(TokenType type, std::string_view text, size_t length) {
    out_.push_back({type, text, {}});
    at_ += length;
  }

  void step() {
    const char c = in_[at_];
    if (is_space(c))
      ++at_;
    else if (is_digit(c) || (c == '.' && at_ + 1 < in_.size() && is_digit(in_[at_ + 1])))
      number();
    else if (is_letter(c))
      put(TokenType::letter, in_.substr(at_, 1), 1);
    else if (c == '\\')
      backslash();
    else if (static_cast<unsigned char>(c) < 0x80)
      put(TokenType::sign, in_.substr(at_, 1), 1);
    else
      wide();
  }

  size_t digits(size_t at) const {
    while (at < in_.size() && is_digit(in_[at])) ++at;
    return at;
  }

  void number() {
    size_t end = digits(at_);
    if (end + 1 < in_.size() && in_[end] == '.' && is_digit(in_[end + 1])) end = digits(end + 1);
    if (end < in_.size() && in_[end] == 'E') {
      const bool sign = end + 1 < in_.size() && (in_[end + 1] == '-' || in_[end + 1] == '+');
      const size_t exponent = end + (sign ? 2 : 1);
      if (digits(exponent) > exponent) end = digits(exponent);
    }
    put(TokenType::number, in_.substr(at_, end - at_), end - at_);
  }

  void wide() {
    for (const Spelling& spelling : kSpellings) {
      if (!in_.substr(at_).starts_with(spelling.text)) continue;
      const bool minus = spelling.command == "minus";
      return put(minus ? TokenType::sign : TokenType::command, minus ? "-" : spelling.command,
                 spelling.text.size());
    }
    put(TokenType::unknown, in_.substr(at_, 1), 1);
  }

  void backslash() {
    const std::string_view name = letters_at(in_, at_ + 1);
    if (!name.empty()) return command(name);
    const std::string_view two = in_.substr(at_, 2);
    const char next = two.size() > 1 ? two[1] : '\0';
    if (next == ',' || next == ';' || next == ':' || next == '!' || is_space(next)) {
      at_ += 2;
    } else if (next == '%') {
      put(TokenType::sign, "%", 2);
    } else {
      const bool known = next == '{' || next == '}' || next == '\\';
      put(known ? TokenType::sign : TokenType::unknown, two, two.size());
    }
  }

  void command(std::string_view name) {
    const size_t length = 1 + name.size();
    const auto other = std::ranges::find(kNames, name, &Spelling::text);
    if (other != kNames.end()) name = other->command;
    if (among(name, kSpaces)) {
      at_ += length;
    } else if (name == "|" || name == "<" || name == ">") {
      put(TokenType::sign, name, length);
    } else {
      put(TokenType::command, name, length);
      if (name == "text" || name == "mbox" || among(name, kAccents)) argument();
    }
  }

  // Takes the braces after the last command into its token.
  void argument() {
    if (at_ >= in_.size() || in_[at_] != '{') return;
    Token& token = out_.back();
    const bool accent = token.text != "text" && token.text != "mbox";
    int depth = 0;
    for (size_t end = at_; end < in_.size(); ++end) {
      const char c = in_[end];
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (depth == 0) {
        token.type = accent ? TokenType::accent : TokenType::word;
        at_ = end + 1;
        return;
      }
      const bool kept = end > at_ && !is_space(c) && (accent || (c != '(' && c != ')'));
      if (kept) token.word += c;
    }
  }

  std::string_view in_;
  size_t at_ = 0;
  std::vector<Token> out_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view latex) { return Lexer(latex).run(); }

}  // namespace trl::reward::math
