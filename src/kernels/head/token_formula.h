// The loss of a token as data, which each back end evaluates where the token's log-probabilities are.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trl::kernels {

// The term of a target in a loss, and its derivatives.
struct TokenTerm {
  double loss = 0;
  double by_log_prob = 0, by_mean_log_prob = 0, by_entropy = 0;
};

// A loss whose terms are computed elsewhere, each from its own target alone. concurrent.
class TargetLoss {
 public:
  virtual TokenTerm term(size_t target, double log_prob, double entropy) const = 0;
  virtual bool by_entropy() const = 0;  // whether a term may have a derivative by the entropy

 protected:
  ~TargetLoss() = default;
};

// A formula of log p, the log-probability of a target, and of the mean log-probability over the vocabulary or
// the entropy. It is linear in `scale`. Each kind names the coefficients and columns that it reads.
struct TokenFormula {
  enum class Kind : uint8_t {
    nll,       // -log p
    smoothed,  // -(1 - e) log p - e mean, coefficients {e} (transformers' LabelSmoother)
    dft,       // -p log p, p being a constant (Wu et al. 2025)
    weighted,  // w log p, columns {w}: any loss whose derivatives by the log-probabilities are known
    given,     // the terms of `given`
  };
  Kind kind = Kind::nll;
  double scale = 1;
  std::array<double, 2> coefficients = {};
  std::vector<std::vector<double>> columns = {};  // each has a number for each target
  const TargetLoss* given = nullptr;              // outlives the backward of the loss

  bool by_entropy() const { return kind == Kind::given && given->by_entropy(); }
};

inline TokenTerm term_of(const TokenFormula& f, size_t target, double log_prob, double mean_log_prob,
                         double entropy) {
  using Kind = TokenFormula::Kind;
  if (f.kind == Kind::given) {
    const TokenTerm term = f.given->term(target, log_prob, entropy);
    return {f.scale * term.loss, f.scale * term.by_log_prob, f.scale * term.by_mean_log_prob,
            f.scale * term.by_entropy};
  }
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
