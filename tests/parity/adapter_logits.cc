// adapter_logits MODEL ADAPTER ID...: the logits of the tokens with the adapter, float32 [tokens,
// vocabulary], on standard output.
#include <ATen/core/grad_mode.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "model/model.h"

namespace {

int print_logits(const std::string& path, const char* adapter, const std::vector<int32_t>& ids) {
  using namespace trl;
  const at::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(ids.size());
  const auto model = model::Model::open(path, "float32");
  model->adapters().use(&model->adapters().open("adapter", adapter));
  model::ForwardInput input;
  input.input_ids = at::tensor(ids, at::kInt);
  input.position_ids = at::arange(count, at::kInt);
  input.segments =
      std::make_shared<kernels::Segments>(kernels::Segments{{0, static_cast<int32_t>(count)}, count});
  const at::Tensor logits = model->logits(model->forward(input, {}), at::kFloat);
  const auto bytes = static_cast<size_t>(logits.nbytes());
  return std::fwrite(logits.data_ptr(), 1, bytes, stdout) == bytes ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return 2;
  std::vector<int32_t> ids;
  for (int i = 3; i < count; ++i) ids.push_back(std::atoi(words[i]));
  try {
    return print_logits(words[1], words[2], ids);
  } catch (const trl::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
}
