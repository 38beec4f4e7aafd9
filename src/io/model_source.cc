#include "io/model_source.h"

#include "base/files/files.h"
#include "io/gguf.h"
#include "io/safetensors.h"

namespace trl::io {

ModelSource::ModelSource(std::string name, std::map<std::string, std::string> files,
                         const std::vector<NamedTensor>& tensors, std::shared_ptr<const void> owner)
    : NamedFiles(std::move(name), std::move(files)) {
  auto map = std::make_shared<TensorMap>();
  map->owner = std::move(owner);
  for (const NamedTensor& tensor : tensors)
    map->views.emplace(tensor.name, TensorView{tensor.type, std::string(element_name(tensor.type)),
                                               tensor.shape, tensor.data, tensor.bytes()});
  tensors_ = std::move(map);
}

ModelForm ModelSource::form() const {
  if (in_memory()) return ModelForm::memory;
  const std::string whole = path();
  if (base::is_directory(whole)) return ModelForm::directory;
  if (!base::file_exists(whole)) return ModelForm::none;
  return is_gguf(whole) ? ModelForm::gguf : ModelForm::other;
}

std::string ModelSource::path() const {
  const bool only_gguf = !in_memory() && has(kGgufFile) && !has_safetensors(*this);
  return only_gguf ? place(kGgufFile) : name();
}

Weights ModelSource::weights(const std::string& named) const {
  return in_memory() ? Weights::in_memory(name(), tensors_) : Weights::open_directory(name(), named);
}

std::shared_ptr<const Gguf> ModelSource::gguf() const { return std::make_shared<const Gguf>(path()); }

}  // namespace trl::io
