// The loss of a token as data, which each back end evaluates where the token's log-probabilities are.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trl::kernels {

// A formula of log p, the log-probability of a target, and of the mean log-probability over the vocabulary.
// It is linear in `scale`. Each kind names the coefficients and columns that it reads. A clipped ratio, for
// example, would read its two borders, the old log-probabilities and the advantages.
struct TokenFormula {
  enum class Kind : uint8_t {
    nll,       // -log p
    smoothed,  // -(1 - e) log p - e mean, coefficients {e} (transformers' LabelSmoother)
    dft,       // -p log p, p being a constant (Wu et al. 2025)
    weighted,  // w log p, columns {w}: any loss whose derivatives by the log-probabilities are known
  };
  Kind kind = Kind::nll;
  double scale = 1;
  std::array<double, 2> coefficients = {};
  std::vector<std::vector<double>> columns = {};  // each has a number for each target
};

// The term of a target in a loss, and its derivatives.
struct TokenTerm {
  double loss = 0;
  double by_log_prob = 0, by_mean_log_prob = 0;
};

inline TokenTerm term_of(const TokenFormula& f, size_t target, double log_prob, double mean_log_prob) {
  using Kind = TokenFormula::Kind;
  double by = -f.scale;
  if (f.kind == Kind::smoothed) by = -(f.scale * (1 - f.coefficients[0]));
  if (f.kind == Kind::dft) by = -(f.scale * std::exp(log_prob));
  if (f.kind == Kind::weighted) by = f.scale * f.columns[0][target];
  TokenTerm term{by * log_prob, by};
  if (f.kind != Kind::smoothed) return term;
  term.by_mean_log_prob = -f.scale * f.coefficients[0];
  term.loss += term.by_mean_log_prob * mean_log_prob;
  return term;
}

}  // namespace trl::kernels
