// The weights of a model in memory, as its files would hold them: the source for saving a model that is
// trained, or has an adapter merged into it.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/model.h"
#include "model/weights.h"

namespace trl::checkpoint {

// Returns whether head and embedding, which are one in the model's files, are two now, because an adapter
// that separates them was merged.
bool has_own_head(model::Model& model);

// Returns all tensors of the model under the names of its files. host: owns the memory that the result points
// to.
std::vector<io::NamedTensor> tensors_of(model::Model& model, std::vector<at::Tensor>& host);

class MemoryWeights final : public model::WeightSource {
 public:
  explicit MemoryWeights(model::Model& model);
  std::string place(const std::string& name) const override { return "tensor " + name; }
  std::string asks(const std::string&) const override { return "the model asks"; }
  const std::vector<int64_t>* shape(const std::string& name) const override;
  void read(const std::string&, at::Tensor&) const override;
  void read(const std::string& name, int64_t first, int64_t count, float* out) const override;
  void forget(const std::string&) const override {}
  void check() const override { model_.check_files(); }
  std::string type(const std::string& name) const override {
    return std::string(io::element_name(tensors_.at(name).type));
  }
  std::vector<std::string> others(const std::set<std::string>& used) const override;

 private:
  const model::Model& model_;
  std::vector<at::Tensor> host_;
  std::map<std::string, io::NamedTensor> tensors_;
};

}  // namespace trl::checkpoint
