// A head with some rows replaced by an adapter's: tokens that are trained separately.
#pragma once
#include <memory>

#include "kernels/head/head.h"
#include "kernels/op.h"

namespace trl::kernels {

// The options' own rows, or null if they have none.
inline const OwnRows* own_rows(const HeadOptions& options) {
  return options.own_rows != nullptr && options.own_rows->rows != nullptr ? options.own_rows : nullptr;
}

// The head's values with these rows replacing its own. Refers to both, which must not be written during its
// lifetime. type: the type that it will be decoded to.
std::unique_ptr<const tensor::Encoded> with_own_rows(Parameter& head, const OwnRows& own,
                                                     at::ScalarType type);

}  // namespace trl::kernels
