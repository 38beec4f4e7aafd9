#include "checkpoint/save_adapter.h"

#include "adapter/config_file.h"
#include "checkpoint/directory.h"
#include "checkpoint/save_model.h"
#include "tensor/device.h"

namespace trl::checkpoint {

namespace {

std::string config_text(const model::Adapter& adapter) {
  std::vector<adapter::Module> modules;
  for (const model::Slot& slot : adapter.slots()) modules.push_back(slot.module);
  return adapter::config_text(adapter.config(), adapter.selection(), modules);
}

}  // namespace

void write_adapter(base::StagedDirectory& staged, const model::Adapter& adapter,
                   std::span<const engine::NamedBytes> files) {
  for (const engine::NamedBytes& file : files) check_file_name(file.name);
  staged.write(adapter::kWeightsFile, [&](base::FileWriter& writer) {
    std::vector<at::Tensor> host;
    std::vector<io::NamedTensor> tensors;
    for (model::Parameter* parameter : adapter.parameters()) {
      host.push_back(tensor::on_host(*parameter->read()));
      tensors.push_back({parameter->name,
                         parameter->dtype() == at::kBFloat16 ? io::ElementType::bf16 : io::ElementType::f32,
                         parameter->shape().vec(), host.back().data_ptr()});
    }
    io::write_safetensors(writer, tensors);
  });
  for (const engine::NamedBytes& file : files) staged.write(file.name, file.bytes);
  staged.write(adapter::kConfigFile, config_text(adapter));
}

void save_adapter(const std::string& directory, const model::Adapter& adapter,
                  std::span<const engine::NamedBytes> files, const base::WriteFault* fault) {
  refuse_checkpoint(directory);
  base::StagedDirectory staged(directory, fault);
  write_adapter(staged, adapter, files);
  staged.commit();
}

}  // namespace trl::checkpoint
