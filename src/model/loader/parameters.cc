// Reads one tensor of the files into a parameter, and tells the progress.
#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "model/loader/loader.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::model {

at::Tensor Loader::read(const std::string& name, const std::vector<int64_t>& shape) const {
  at::Tensor values = tensor::empty(shape, dtype_, tensor::MemoryKind::workspace);
  source_.read(name, values);
  return values;
}

tensor::Parameter* Loader::add(const std::string& own, const std::string& name,
                               std::shared_ptr<const tensor::Encoded> values) {
  if (!device_.is_cpu()) {
    fail(Status::unsupported,
         "{} is {}, which this build supports only on the CPU, and the model is on {}; give use_cpu: true",
         source_.place(name), values->form(), device_.str());
  }
  tensor::Parameter* const parameter =
      loaded_.all.emplace_back(std::make_unique<tensor::Parameter>(name, std::move(values), dtype_)).get();
  loaded_.names[parameter] = own;
  return parameter;
}

tensor::Parameter* Loader::add(const std::string& own, const std::string& name, at::Tensor values) {
  tensor::Parameter* const parameter =
      loaded_.all.emplace_back(std::make_unique<tensor::Parameter>(name, std::move(values))).get();
  loaded_.names[parameter] = own;
  return parameter;
}

tensor::Parameter* Loader::add_mapped(const std::string& own, const std::string& name) {
  at::Tensor numbers = source_.mapped(name, dtype_);
  if (!numbers.defined()) return nullptr;
  tensor::Parameter* const parameter = add(own, name, std::move(numbers));
  parameter->fixed = "its numbers are read in their file";
  return parameter;
}

// Reports the number of loaded tensors as progress. A rehearsal reads none of them.
void Loader::tell(int64_t done) const {
  const bool rehearsed = tensor::Rehearsal::current() != nullptr;
  base::progress(rehearsed ? "plan" : "weights", std::min(done, tensors_), tensors_);
}

// Checks and counts a tensor. Tensors are taken from the source one by one, in the order in which they become
// parameters.
void Loader::check(const std::string& name, const std::vector<int64_t>& shape) {
  source_.need(name, shape);
  tell(std::ssize(used_));
  used_.insert(name);
}

tensor::Parameter* Loader::load(const std::string& own, const std::vector<int64_t>& shape, bool decay) {
  const std::string name = stored_name(source_, *config_.family, own);
  check(name, shape);
  if (held_ != Held::numbers && shape.size() > 1) {
    if (tensor::Parameter* const parameter = add_mapped(own, name)) return parameter;
    if (auto values = source_.encoded(name, false)) return add(own, name, std::move(values));
  }
  at::Tensor values = tensor::empty(shape, dtype_, tensor::MemoryKind::weights, device_);
  read(name, values);
  tensor::Parameter* const parameter = add(own, name, std::move(values));
  parameter->decay = decay;
  return parameter;
}

void Loader::read(const std::string& name, at::Tensor& out) const {
  if (out.is_cpu()) return source_.read(name, out);
  at::Tensor host = tensor::empty(out.sizes(), out.scalar_type(), tensor::MemoryKind::workspace);
  source_.read(name, host);
  out.copy_(host);
}

}  // namespace trl::model
