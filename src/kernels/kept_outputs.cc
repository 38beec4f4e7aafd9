#include "kernels/kept_outputs.h"

#include "base/error.h"

namespace trl::kernels {

void KeptOutputs::add(const std::vector<at::Tensor>& outputs, std::string_view by) {
  std::vector<tensor::Saved>& all = kept_.emplace_back();
  for (const at::Tensor& x : outputs) all.emplace_back(x, by);
}

std::vector<at::Tensor> KeptOutputs::next() {
  if (kept_.empty())
    fail(Status::internal, "a piece that is computed again has more ops than the first time");
  std::vector<at::Tensor> outputs;
  for (const tensor::Saved& x : kept_.front()) outputs.push_back(x.get());
  kept_.pop_front();
  return outputs;
}

}  // namespace trl::kernels
