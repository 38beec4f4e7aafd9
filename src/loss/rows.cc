#include "loss/rows.h"

#include <torch/csrc/autograd/custom_function.h>

#include "tensor/counted.h"
#include "tensor/parallel.h"

namespace trl::loss {

namespace {

constexpr int64_t kRowsPerPart = 64;

class SelectRows : public torch::autograd::Function<SelectRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& index) {
    context->saved_data["index"] = index;
    context->saved_data["rows"] = x.size(0);
    at::Tensor out =
        tensor::empty({index.numel(), x.size(1)}, x.scalar_type(), tensor::MemoryKind::activations);
    const size_t bytes = static_cast<size_t>(x.size(1)) * x.element_size();
    const char* source = static_cast<const char*>(x.data_ptr());
    char* target = static_cast<char*>(out.data_ptr());
    const int64_t* row = index.data_ptr<int64_t>();
    tensor::parallel_for(index.numel(), kRowsPerPart, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(target + static_cast<size_t>(i) * bytes, source + static_cast<size_t>(row[i]) * bytes,
                    bytes);
      }
    });
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor index = context->saved_data["index"].toTensor();
    const at::Tensor gradient = gradients[0].contiguous();
    const int64_t rows = context->saved_data["rows"].toInt();
    at::Tensor out =
        tensor::zeros({rows, gradient.size(1)}, gradient.scalar_type(), tensor::MemoryKind::activations);
    const size_t bytes = static_cast<size_t>(gradient.size(1)) * gradient.element_size();
    const char* source = static_cast<const char*>(gradient.data_ptr());
    char* target = static_cast<char*>(out.data_ptr());
    const int64_t* row = index.data_ptr<int64_t>();
    tensor::parallel_for(index.numel(), kRowsPerPart, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(target + static_cast<size_t>(row[i]) * bytes, source + static_cast<size_t>(i) * bytes,
                    bytes);
      }
    });
    return {out, at::Tensor()};
  }
};

}  // namespace

at::Tensor select_rows(const at::Tensor& x, const at::Tensor& index) {
  return SelectRows::apply(x.contiguous(), index);
}

}  // namespace trl::loss
