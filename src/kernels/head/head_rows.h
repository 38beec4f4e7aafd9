// A head some of whose rows are an adapter's: tokens that are trained by themselves.
#pragma once
#include <memory>

#include "kernels/head/head.h"
#include "kernels/op.h"

namespace trl::kernels {

// Those of the options, or null where there are none.
inline const OwnRows* own_rows(const HeadOptions& options) {
  return options.own_rows != nullptr && options.own_rows->rows != nullptr ? options.own_rows : nullptr;
}

// The head's values with these rows in the places of its own. Reads both, which are not written while it
// lives. type: in which it will be decoded.
std::unique_ptr<const tensor::Encoded> with_own_rows(Parameter& head, const OwnRows& own,
                                                     at::ScalarType type);

}  // namespace trl::kernels
