// How files store a parameter: as one tensor, or as one for every part of it (experts).
#pragma once
#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace trl::model {

struct StoredPart {
  std::string name;
  int64_t expert = -1;           // the first index; -1: all of it
  int64_t first = 0, rows = -1;  // rows within the expert's matrix; -1: all
  bool transposed = false;       // files store the whole as [in, out], the parameter is [out, in]
  std::vector<int64_t> shape(at::IntArrayRef whole) const {
    if (transposed) return {whole[1], whole[0]};
    if (expert < 0) return whole.vec();
    return {rows < 0 ? whole[1] : rows, whole[2]};
  }
  // values: the parameter's, or a tensor of its shape.
  at::Tensor of(const at::Tensor& values) const {
    if (transposed) return values.t();
    if (expert < 0) return values;
    const at::Tensor matrix = values.select(0, expert);
    return rows < 0 ? matrix : matrix.narrow(0, first, rows);
  }
};

}  // namespace trl::model
