// A rational number as it is written: exact, however many digits it has.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trl::reward::math {

// Stands for +-digits * 10^exponent / denominator.
struct Number {
  bool negative = false;
  bool decimal = false;  // written with a point or an exponent: compared as a rounded number
  std::string digits = "0";
  int64_t exponent = 0;
  int64_t denominator = 1;
};

// Reads "12", "1,234", "12.5", ".5", "1.5E-3"; commas are skipped. Returns nothing for anything else.
std::optional<Number> parse_number(std::string_view text);
Number integer(int64_t value);

bool is_integer(const Number& number);  // written as one: 4/2 is an integer, 2.0 is not
// Returns the value of an integer of at most 18 digits.
std::optional<int64_t> small_integer(const Number& number);
bool is_positive(const Number& number);

// Return nothing if a part is not a small integer, if a fraction has the denominator 0, or if the result is
// too large.
std::optional<Number> fraction(const Number& upper, const Number& lower);            // in lowest terms
std::optional<Number> mixed_number(const Number& whole, const Number& fraction_of);  // 2 1/3 is 7/3

double to_double(const Number& number);  // infinite where it is too large
// Returns the value modulo a prime below 2^32; nothing if the prime divides the denominator.
std::optional<uint64_t> residue(const Number& number, uint64_t prime);

uint64_t power_modulo(uint64_t base, uint64_t exponent, uint64_t prime);
std::optional<uint64_t> inverse_modulo(uint64_t value, uint64_t prime);  // nothing for 0

}  // namespace trl::reward::math
