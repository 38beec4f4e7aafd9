#include "reward/math/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "reward/math/sample_functions.h"
#include "reward/math/sample_whole.h"

namespace trl::reward::math {

namespace {

constexpr std::array<uint64_t, kPoints> kPrimes = {4294967291, 4294967279, 4294967231,
                                                   4294967197, 4294967189, 4294967161};

// FNV-1a, and the last steps of SplitMix64, without which names of one letter are near one another.
uint64_t hash_of(std::string_view text, uint64_t seed) {
  uint64_t out = 14695981039346656037U + seed * 0x9e3779b97f4a7c15U;
  for (const char c : text) out = (out ^ static_cast<unsigned char>(c)) * 1099511628211U;
  out = (out ^ (out >> 30)) * 0xbf58476d1ce4e5b9U;
  out = (out ^ (out >> 27)) * 0x94d049bb133111ebU;
  return out ^ (out >> 31);
}

class Sampler {
 public:
  explicit Sampler(int point) : point_(point), prime_(kPrimes[static_cast<size_t>(point)]) {}

  Sample of(const Node& node) const {
    switch (node.kind) {
      case Kind::number: {
        const double value = to_double(node.number);
        return {{value, 0.0},
                node.number.decimal ? kRounding * std::abs(value) : 0,
                residue(node.number, prime_)};
      }
      case Kind::constant:
        return constant(node.name);
      case Kind::symbol:
      case Kind::application:
        return symbol(node.name);
      case Kind::add:
        return add(node);
      case Kind::multiply:
        return multiply(node);
      case Kind::divide:
        return divide(of(node.children[0]), of(node.children[1]));
      case Kind::percent:
        return divide(of(node.children[0]), integer_sample(100, prime_));
      case Kind::power:
        return raise(of(node.children[0]), of(node.children[1]), prime_);
      case Kind::function: {
        std::vector<Sample> arguments;
        for (const Node& child : node.children) arguments.push_back(of(child));
        return apply_function(node.name, arguments, prime_);
      }
      default:
        return undefined_sample();
    }
  }

 private:
  static Sample constant(std::string_view name) {
    if (name == "i") return {{0.0, 1.0}, 0};
    const double value = name == "pi" ? std::numbers::pi : std::numbers::e;
    return {{value, 0.0}, kRounding * value};
  }

  // Between 0.4 and 2.6: powers stay small, and no usual number is hit.
  Sample symbol(std::string_view name) const {
    const uint64_t bits = hash_of(name, static_cast<uint64_t>(point_) + 1);
    const double size = 0.4 + 2.2 * static_cast<double>(bits >> 40) / static_cast<double>(1 << 24);
    const bool negative = point_ == 1 || (point_ > 1 && (bits & 1) != 0);
    return {{negative ? -size : size, 0.0},
            0,
            2 + hash_of(name, 100 + static_cast<uint64_t>(point_)) % (prime_ - 2)};
  }

  Sample add(const Node& node) const {
    Sample sum = integer_sample(0, prime_);
    for (const Node& child : node.children) {
      const Sample term = of(child);
      sum.value += term.value;
      sum.error += term.error + kRounding * std::abs(sum.value);
      if (sum.residue && term.residue)
        sum.residue = (*sum.residue + *term.residue) % prime_;
      else
        sum.residue.reset();
    }
    return sum;
  }

  Sample multiply(const Node& node) const {
    Sample product = integer_sample(1, prime_);
    for (const Node& child : node.children) {
      const Sample factor = of(child);
      const double error = std::abs(factor.value) * product.error + std::abs(product.value) * factor.error;
      product.value *= factor.value;
      product.error = error + kRounding * std::abs(product.value);
      if (product.residue && factor.residue)
        product.residue = *product.residue * *factor.residue % prime_;
      else
        product.residue.reset();
    }
    return product;
  }

  Sample divide(const Sample& upper, const Sample& lower) const {
    if (lower.residue == 0U || std::abs(lower.value) == 0) return undefined_sample();
    Sample out{upper.value / lower.value};
    const double size = std::abs(out.value);
    out.error = (upper.error + size * lower.error) / std::abs(lower.value) + 2 * kRounding * size;
    if (upper.residue && lower.residue)
      out.residue = *upper.residue * inverse_modulo(*lower.residue, prime_).value_or(0) % prime_;
    return out;
  }

  int point_;
  uint64_t prime_;
};

}  // namespace

Sample sample(const Node& expression, int point) { return Sampler(point).of(expression); }

bool is_defined(const Sample& sample) {
  return std::isfinite(sample.value.real()) && std::isfinite(sample.value.imag()) &&
         std::isfinite(sample.error);
}

std::optional<bool> agree(const Sample& a, const Sample& b) {
  if (a.residue && b.residue) return *a.residue == *b.residue;
  if (!is_defined(a) || !is_defined(b)) return std::nullopt;
  const double size = std::max(std::abs(a.value), std::abs(b.value));
  const double limit = 4 * (a.error + b.error + kRounding * size);
  if (limit > 1e-9 * std::max(1.0, size)) return std::nullopt;
  return std::abs(a.value - b.value) <= limit;
}

}  // namespace trl::reward::math
