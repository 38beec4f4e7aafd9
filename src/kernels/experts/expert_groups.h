// Groups the tokens of a batch by expert: which row belongs to which expert.
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

  // In a rehearsal no router has chosen, so all experts are equally busy.
  Groups(const at::Tensor& experts, int64_t count) : k(experts.size(1)) {
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
      groups.push_back({e, first, padded(own)});
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

}  // namespace trl::kernels
