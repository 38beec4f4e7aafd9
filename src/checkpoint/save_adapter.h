// A saved adapter as PEFT has it: adapter_config.json and adapter_model.safetensors, without the weights of
// the model. Files of the caller (tokenizer, chat template) may lie beside them.
#pragma once
#include <span>
#include <string>

#include "base/staged_directory.h"
#include "engine/engine.h"
#include "model/adapter.h"

namespace trl::checkpoint {

// Into a directory that the caller commits.
void write_adapter(base::StagedDirectory& staged, const model::Adapter& adapter,
                   std::span<const engine::NamedBytes> files);

// All files appear together or not at all; others of a directory that is there stay.
void save_adapter(const std::string& directory, const model::Adapter& adapter,
                  std::span<const engine::NamedBytes> files, const base::WriteFault* fault = nullptr);

}  // namespace trl::checkpoint
