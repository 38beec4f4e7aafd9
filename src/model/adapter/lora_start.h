// The first values of a new adapter: random numbers are torch 2.15's, drawn in its order after set_seed, as
// PEFT draws them when TRL's trainers make the adapter.
#pragma once
#include <ATen/ATen.h>
#include <cstdint>
#include <optional>

#include "config/lora_config.h"

namespace trl::model {

// The factors of y += scaling b (a x). All float32, on the host.
struct LoraFactors {
  at::Tensor a;     // [r, in]
  at::Tensor b;     // [out, r]
  at::Tensor bias;  // [out] with lora_bias, else undefined
};

// Draws the initial values of the matrices of a new adapter from one generator in the order of the modules,
// as PEFT does (peft/tuners/lora/layer.py): a run begins with the adapter that TRL would begin with for the
// same seed.
class LoraStart {
 public:
  // weights: the model's type, to which PEFT rounds the drawn values before it widens them again.
  LoraStart(const config::LoraConfig& config, at::Generator generator, at::ScalarType weights = at::kFloat);

  // Whether linear() needs the module's weight: olora and pissa, which take the factors out of it (rest()).
  bool needs_weight() const;
  // Returns the bytes that libtorch takes at most in linear() to decompose the weight; 0: it is not needed.
  int64_t workspace(int64_t in, int64_t out, int64_t r) const;
  // Returns the bytes in buffers of OpenBLAS that it touches at most meanwhile; they stay resident.
  int64_t blas_pages(int64_t in, int64_t out, int64_t r) const;
  // Throws Error(invalid_config) if `orthogonal` is used with an odd rank.
  void check(int64_t r) const;
  // Call for each module once, in the order of Selection::targets. weight: float32 [out, in], also for a
  // Conv1D; may be undefined if it is not needed. Throws the errors of check().
  LoraFactors linear(int64_t in, int64_t out, int64_t r, double scaling, const at::Tensor& weight = {});
  // The remainder of a weight after olora and pissa, which replaces it in a forward. Takes one more matrix of
  // its size. All float32: weight [out, in], a [r, in], b [out, r].
  static at::Tensor rest(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b, double scaling);
  // rows x width: the table's; a is [r, rows], b [width, r].
  LoraFactors embedding(int64_t rows, int64_t width, int64_t r);
  // The factors of one matrix of all experts: a is [r experts, in], b [out, r experts].
  LoraFactors experts(int64_t experts, int64_t in, int64_t out, int64_t r);

 private:
  LoraFactors rounded(LoraFactors factors) const;
  LoraFactors drawn(int64_t in, int64_t out, int64_t rows);  // drawn like two matrices of nn.Linear
  void start(LoraFactors& factors, int64_t r);
  LoraFactors orthogonal(int64_t in, int64_t out, int64_t r);
  LoraFactors principal(const at::Tensor& weight, int64_t r, double scaling);

  config::LoraInit init_;
  std::optional<int64_t> iterations_;
  bool bias_;
  at::ScalarType weights_;
  at::Generator generator_;
};

}  // namespace trl::model
