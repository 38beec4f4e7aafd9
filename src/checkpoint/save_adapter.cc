#include "checkpoint/save_adapter.h"

#include <algorithm>

#include "adapter/config_file.h"
#include "adapter/model_card.h"
#include "base/files/files.h"
#include "checkpoint/directory.h"
#include "checkpoint/save_model.h"

namespace trl::checkpoint {

namespace {

std::vector<model::Adapter::Stored> tensors_of(const model::Adapter& adapter) {
  std::vector<model::Adapter::Stored> all = adapter.stored();
  for (model::Adapter::Stored& table : adapter.tables()) all.push_back(std::move(table));
  return all;
}

}  // namespace

std::string config_text(const model::Adapter& adapter) {
  std::vector<adapter::Module> modules;
  for (const model::Slot& slot : adapter.slots()) modules.push_back(slot.module);
  return adapter::config_text(adapter.stored_config(), adapter.selection(), modules);
}

int64_t weight_bytes(const model::Adapter& adapter) {
  int64_t bytes = 0;
  for (const model::Adapter::Stored& stored : tensors_of(adapter))
    bytes += static_cast<int64_t>(stored.values.nbytes());
  return bytes;
}

void write_adapter(base::StagedDirectory& staged, const model::Adapter& adapter,
                   std::span<const engine::NamedBytes> files) {
  for (const engine::NamedBytes& file : files) check_file_name(file.name);
  staged.write(adapter::kWeightsFile, [&](base::FileWriter& writer) {
    const std::vector<model::Adapter::Stored> stored = tensors_of(adapter);
    std::vector<io::NamedTensor> tensors;
    for (const auto& [name, values] : stored) {
      const bool narrow = values.scalar_type() == at::kBFloat16;
      tensors.push_back({name, narrow ? io::ElementType::bf16 : io::ElementType::f32, values.sizes().vec(),
                         values.data_ptr()});
    }
    io::write_safetensors(writer, tensors);
  });
  for (const engine::NamedBytes& file : files) staged.write(file.name, file.bytes);
  staged.write(adapter::kConfigFile, config_text(adapter));
}

void write_card(base::StagedDirectory& staged, const model::Adapter& adapter,
                std::span<const engine::NamedBytes> files, std::span<const std::string_view> tags) {
  const bool given = std::any_of(files.begin(), files.end(), [](const engine::NamedBytes& file) {
    return file.name == adapter::kModelCard;
  });
  if (!given) staged.write(adapter::kModelCard, adapter::model_card(adapter.stored_config(), tags));
}

void save_adapter(const std::string& directory, const model::Adapter& adapter,
                  std::span<const engine::NamedBytes> files, std::span<const std::string_view> tags,
                  const base::WriteFault* fault) {
  refuse_checkpoint(directory);
  base::StagedDirectory staged(directory, fault);
  write_adapter(staged, adapter, files);
  if (!base::file_exists(base::join_path(directory, adapter::kModelCard)))
    write_card(staged, adapter, files, tags);
  staged.commit();
}

}  // namespace trl::checkpoint
