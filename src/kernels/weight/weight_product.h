// Products with a weight: only this file distinguishes the forms in which values are stored.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/kernels.h"
#include "kernels/op.h"

namespace trl::kernels {

// y = x w^T + b of each projection, in x's type, which is the type of the products; sums are float32. x:
// [tokens, in] -> [tokens, out] each. added: products that are added to the outputs, one for each; an entry
// without factors adds nothing. Empty: nothing is added. If rows are independent, they are added to rounded
// outputs. beside: products of x that are computed with these, by the kernels for independent rows.
std::vector<at::Tensor> project(const at::Tensor& x, at::ArrayRef<Projection> projections,
                                at::ArrayRef<TensorFactors> added = {},
                                at::ArrayRef<SkinnyProduct> beside = {});

// Adds each product that has factors to the matrix of its place, which is rounded once. Independent rows are
// divided among the threads together.
void add_products(at::ArrayRef<TensorFactors> products, std::vector<at::Tensor>& to);

// dx = the sum of dy w over the projections and of the product that is added, if it has factors. dys:
// [tokens, out], of the type of the products, or undefined; dx: [tokens, in], of its own type.
void input_gradient(at::ArrayRef<at::Tensor> dys, at::ArrayRef<Projection> projections,
                    const TensorFactors& added, at::Tensor& dx);

// Bytes, in the type of the product, above which an encoded weight is decoded panel by panel; a smaller one
// is decoded at once.
inline constexpr int64_t kDecodedBytes = int64_t{2} << 20;
// An encoded matrix [out, in], or one of a stack of them, as the right-hand side of a product: transposed
// with out columns, else with in columns. Holds w by reference.
Panels panels(const tensor::Encoded& w, at::ScalarType type, bool transposed, int64_t matrix = 0);

}  // namespace trl::kernels
