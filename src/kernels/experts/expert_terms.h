// The low-rank terms of one matrix of every expert, y += scale b_e (a_e x) for the rows x of expert e. PEFT
// stores the factors of all experts in two matrices: expert e has the rows e r ... e r + r - 1 of a, and
// every column of b whose number mod the number of experts is e.
#pragma once
#include "kernels/experts/expert_groups.h"

namespace trl::kernels {

class ExpertTerms {
 public:
  // factors: a [experts * rank, in], b [out, experts * rank]; without an a, no terms exist.
  ExpertTerms(const LowRank& factors, int64_t experts);

  bool empty() const { return factors_.a == nullptr; }
  bool needs_input() const { return static_cast<bool>(a_) || static_cast<bool>(b_); }
  // rows: [rows, in]; y, of rows' type: [rows, out], is added to.
  void add_to(const Groups& groups, const at::Tensor& rows, const at::Tensor& y) const;

  // dy: [rows, out]; dx, of its type: [rows, in], is added to. Returns the `reduced_dy` for add_gradients();
  // undefined without terms.
  at::Tensor add_input_gradient(const Groups& groups, const at::Tensor& dy, const at::Tensor& dx) const;
  // rows: the input, already multiplied by the factor that its row of dy still lacks.
  void add_gradients(const Groups& groups, const at::Tensor& dy, const at::Tensor& reduced_dy,
                     const at::Tensor& rows) const;
  // Ends backward.
  void end();

 private:
  int64_t rank() const { return factors_.a->size(0) / experts_; }
  at::Tensor reduced(const Groups& groups, const at::Tensor& rows) const;
  at::Tensor scaled_b(const Groups& groups, at::ScalarType type) const;
  void add_gradient_of_b(const Groups& groups, const at::Tensor& dy, const at::Tensor& rows,
                         const at::Tensor& gradient) const;

  LowRank factors_;
  int64_t experts_;
  tensor::Use a_, b_;
};

// Merges each expert's terms into its matrix of w, [experts, out, in].
void merge_experts(Parameter& w, const LowRank& factors);

}  // namespace trl::kernels
