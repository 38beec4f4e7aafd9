// Parameters made of recorded numbers.
#pragma once
#include <vector>

#include "optim/optim.h"
#include "support/golden.h"

namespace trl::optim {

inline void flatten(const base::Json& json, std::vector<float>& out) {
  if (json.is_number()) {
    out.push_back(json.get<float>());
    return;
  }
  for (const base::Json& item : json) flatten(item, out);
}
inline std::vector<float> numbers(const base::Json& json) {
  std::vector<float> out;
  flatten(json, out);
  return out;
}

inline at::Tensor tensor_of(const base::Json& json) {
  const std::vector<float> values = numbers(json);
  std::vector<int64_t> sizes;
  for (const base::Json* inner = &json; inner->is_array(); inner = &inner->front()) {
    sizes.push_back(static_cast<int64_t>(inner->size()));
  }
  const at::Tensor tensor = at::empty(sizes, at::kFloat);
  std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
  return tensor;
}

inline void set(const at::Tensor& tensor, const base::Json& json) { tensor.copy_(tensor_of(json)); }

inline void expect_equal(const at::Tensor& tensor, const base::Json& json, const std::string& what) {
  const std::vector<float> want = numbers(json);
  ASSERT_EQ(tensor.numel(), static_cast<int64_t>(want.size())) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(test::close(tensor.data_ptr<float>()[i], want[i], test::limits::function))
        << what << "[" << i << "]: " << tensor.data_ptr<float>()[i] << " instead of " << want[i];
  }
}

inline Parameter trained(const std::string& name, const at::Tensor& values, const at::Tensor& gradient) {
  Parameter made(name, values);
  made.begin_training(gradient);
  return made;
}

struct Weights {
  explicit Weights(const base::Json& initial) {
    for (const base::Json& values : initial) {
      const at::Tensor start = tensor_of(values);
      parameters.push_back(trained("", start, at::zeros_like(start)));
    }
    for (Parameter& parameter : parameters) pointers.push_back(&parameter);
  }
  std::vector<Parameter> parameters;
  std::vector<Parameter*> pointers;
};

}  // namespace trl::optim
