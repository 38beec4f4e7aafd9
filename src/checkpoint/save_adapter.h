// Saves an adapter as PEFT does: adapter_config.json and adapter_model.safetensors, without the weights of
// the model. Files of the caller (tokenizer, chat template) may be added.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "base/files/staged_directory.h"
#include "engine/engine.h"
#include "model/adapter.h"

namespace trl::checkpoint {

// Returns the text of adapter_config.json.
std::string config_text(const model::Adapter& adapter);
// Writes into a directory that the caller commits.
void write_adapter(base::StagedDirectory& staged, const model::Adapter& adapter,
                   std::span<const engine::NamedBytes> files);
int64_t weight_bytes(const model::Adapter& adapter);  // bytes of the tensors in its files
// Writes README.md, unless it is one of the files. tags: of the saving command or run.
void write_card(base::StagedDirectory& staged, const model::Adapter& adapter,
                std::span<const engine::NamedBytes> files, std::span<const std::string_view> tags);

// Saves all files together or none; other files in an existing directory stay, a README.md too.
void save_adapter(const std::string& directory, const model::Adapter& adapter,
                  std::span<const engine::NamedBytes> files, std::span<const std::string_view> tags = {},
                  const base::WriteFault* fault = nullptr);

}  // namespace trl::checkpoint
