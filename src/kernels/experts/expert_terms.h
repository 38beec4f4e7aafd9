// The tokens of a batch in groups, one for each expert, and the low-rank terms of experts.
#pragma once
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/op.h"
#include "tensor/memory/rehearsal.h"

namespace trl::kernels {

// One expert's rows among the rows of all experts.
struct Group {
  int64_t expert, first, rows;
};

// Rows of a group, rounded up. oneDNN compiles a program for each shape of a product, which takes longer than
// a small product does, so groups have few sizes, at most an eighth larger than their content. The rows after
// the content are zero.
inline int64_t padded(int64_t rows) {
  int64_t unit = 16;
  while (rows > 16 * unit) unit *= 2;
  return round_up(rows, unit);
}

// Assignments (token t's i-th expert is number t k + i) sorted by expert, then by token.
struct Groups {
  std::vector<Group> groups;        // only experts that have a token
  std::vector<int64_t> place;       // [assignments]: each one's row
  std::vector<int64_t> assignment;  // [rows]: each one's assignment; -1: padding
  int64_t k;

  // even: groups have few sizes. In a rehearsal no router has chosen, so all experts are equally busy.
  Groups(const at::Tensor& experts, int64_t count, bool even = true) : k(experts.size(1)) {
    const int32_t* const chosen = experts.data_ptr<int32_t>();
    const auto expert = [chosen, count, rehearsed = tensor::Rehearsal::current() != nullptr](int64_t a) {
      return static_cast<size_t>(rehearsed ? a % count : chosen[a]);
    };
    std::vector<int64_t> rows(static_cast<size_t>(count)), next(rows);
    for (int64_t a = 0; a < experts.numel(); ++a) ++rows.at(expert(a));
    int64_t first = 0;
    for (int64_t e = 0; e < count; ++e) {
      const int64_t own = rows[static_cast<size_t>(e)];
      next[static_cast<size_t>(e)] = first;
      if (own == 0) continue;
      groups.push_back({e, first, even ? padded(own) : own});
      first += groups.back().rows;
    }
    assignment.assign(static_cast<size_t>(first), -1);
    for (int64_t a = 0; a < experts.numel(); ++a) {
      const int64_t row = next[expert(a)]++;
      place.push_back(row);
      assignment[static_cast<size_t>(row)] = a;
    }
  }
  int64_t rows() const { return std::ssize(assignment); }

  // Calls body(row, assignment) for each row; assignment is -1 if the row is padding
  template <typename Body>
  void each_row(const Body& body) const {
    tensor::parallel_for(rows(), 16, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) body(row, assignment[static_cast<size_t>(row)]);
    });
  }
};

inline Matrix matrix_of(const at::Tensor& x, const Group& group, bool transposed) {
  const int64_t width = x.size(1);
  return {at_byte(x, group.first * width), x.scalar_type(), transposed ? width : group.rows,
          transposed ? group.rows : width, width,           transposed};
}

// The low-rank terms of one matrix of every expert, y += scale b_e (a_e x) for the rows x of expert e. PEFT
// stores the factors of all experts in two matrices: expert e has the rows e r ... e r + r - 1 of a, and
// every column of b whose number mod the number of experts is e.
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
