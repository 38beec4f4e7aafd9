#include "reward/math/number.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text/number.h"
#include "reward/math/characters.h"

namespace trl::reward::math {

namespace {

constexpr size_t kSmallDigits = 18;
constexpr int64_t kMaxExponent = 100'000;  // of a decimal

std::optional<Number> reduced(bool negative, int64_t upper, int64_t lower) {
  const int64_t divisor = std::gcd(upper, lower);
  Number out;
  out.negative = negative && upper != 0;
  out.digits = std::to_string(upper / divisor);
  out.denominator = lower / divisor;
  return out;
}

}  // namespace

std::optional<Number> parse_number(std::string_view text) {
  Number out;
  out.digits.clear();
  size_t at = 0;
  bool point = false;
  for (; at < text.size() && (is_digit(text[at]) || text[at] == ',' || (text[at] == '.' && !point)); ++at) {
    if (text[at] == '.') {
      point = true;
    } else if (text[at] != ',') {
      out.digits += text[at];
      if (point) --out.exponent;
    }
  }
  if (out.digits.empty()) return std::nullopt;
  out.decimal = point;
  if (at < text.size()) {
    if (text[at] != 'E') return std::nullopt;
    const std::optional<int64_t> exponent = base::parse_int64(text.substr(at + 1));
    if (!exponent || std::abs(*exponent) > kMaxExponent) return std::nullopt;
    out.exponent += *exponent;
    out.decimal = true;
  }
  const size_t zeros = std::min(out.digits.find_first_not_of('0'), out.digits.size() - 1);
  out.digits.erase(0, zeros);
  return out;
}

Number integer(int64_t value) {
  Number out;
  out.negative = value < 0;
  out.digits = std::to_string(value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value));
  return out;
}

bool is_integer(const Number& number) { return !number.decimal && number.denominator == 1; }

std::optional<int64_t> small_integer(const Number& number) {
  if (!is_integer(number) || number.digits.size() > kSmallDigits) return std::nullopt;
  const int64_t size = base::parse_int64(number.digits).value_or(0);
  return number.negative ? -size : size;
}

bool is_positive(const Number& number) {
  return !number.negative && number.digits.find_first_not_of('0') != std::string::npos;
}

std::optional<Number> fraction(const Number& upper, const Number& lower) {
  const std::optional<int64_t> above = small_integer(upper);
  const std::optional<int64_t> below = small_integer(lower);
  if (!above || !below || *below == 0) return std::nullopt;
  return reduced((*above < 0) != (*below < 0), std::abs(*above), std::abs(*below));
}

std::optional<Number> mixed_number(const Number& whole, const Number& fraction_of) {
  if (fraction_of.decimal || !is_positive(fraction_of)) return std::nullopt;
  Number upper = fraction_of;
  upper.denominator = 1;
  const std::optional<int64_t> count = small_integer(whole);
  const std::optional<int64_t> part = small_integer(upper);
  int64_t sum = 0;
  if (!count || !part || __builtin_mul_overflow(std::abs(*count), fraction_of.denominator, &sum) ||
      __builtin_add_overflow(sum, *part, &sum))
    return std::nullopt;
  return reduced(*count < 0, sum, fraction_of.denominator);
}

double to_double(const Number& number) {
  const bool above_one = static_cast<int64_t>(number.digits.size()) + number.exponent > 0;
  const std::string text = fmt::format("{}e{}", number.digits, number.exponent);
  const double size = base::parse_double(text).value_or(above_one ? HUGE_VAL : 0.0);
  const double value = size / static_cast<double>(number.denominator);
  return number.negative ? -value : value;
}

uint64_t power_modulo(uint64_t base, uint64_t exponent, uint64_t prime) {
  uint64_t out = 1;
  for (uint64_t square = base % prime; exponent != 0; exponent >>= 1, square = square * square % prime)
    if ((exponent & 1) != 0) out = out * square % prime;
  return out;
}

std::optional<uint64_t> inverse_modulo(uint64_t value, uint64_t prime) {
  if (value % prime == 0) return std::nullopt;
  return power_modulo(value, prime - 2, prime);
}

std::optional<uint64_t> residue(const Number& number, uint64_t prime) {
  uint64_t out = 0;
  for (const char digit : number.digits) out = (out * 10 + static_cast<uint64_t>(digit - '0')) % prime;
  const uint64_t ten = power_modulo(10, static_cast<uint64_t>(std::abs(number.exponent)), prime);
  uint64_t divisor = static_cast<uint64_t>(number.denominator) % prime;
  if (number.exponent < 0)
    divisor = divisor * ten % prime;
  else
    out = out * ten % prime;
  const std::optional<uint64_t> inverse = inverse_modulo(divisor, prime);
  if (!inverse) return std::nullopt;
  out = out * *inverse % prime;
  return number.negative && out != 0 ? prime - out : out;
}

}  // namespace trl::reward::math
