// The tensors of an adapter's file, adapter_model.safetensors, under PEFT's names.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "adapter/old_experts.h"
#include "adapter/target_modules.h"
#include "config/lora_config.h"
#include "io/safetensors.h"

namespace trl::adapter {

// Ends the name of the original weight of a module that is saved whole.
inline constexpr std::string_view kOriginalModule = ".original_module.weight";
inline constexpr std::string_view kWeightsFile = "adapter_model.safetensors";
inline constexpr std::string_view kTokenRows = ".token_adapter.trainable_tokens_delta";  // ends a name

enum class Role : uint8_t {
  a,          // lora_A; for an embedding lora_embedding_A
  b,          // lora_B
  b_bias,     // lora_B's bias, with lora_bias
  magnitude,  // DoRA's
  weight,     // weight of a module that is saved whole
  bias,       // bias of the base, if it is trained or its module is saved whole
  tokens,     // the rows of an embedding that are trained
  table,      // an embedding or head of the model itself, which PEFT may save with its adapter
  copy,       // a duplicate of another tensor in the file
};

struct Tensor {
  std::string name;  // "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
  Role role;
  size_t module;               // index
  std::vector<int64_t> shape;  // empty for a norm saved whole, which has the model's
  bool optional = false;       // a file may lack it
};

// Returns all tensors that PEFT writes for the selection, by module.
std::vector<Tensor> tensors(const config::LoraConfig& config, const Selection& selection,
                            std::span<const Module> modules);

// Returns the name that a tensor has in PEFT's model, where the adapter has this name:
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight". A bias that is trained in its
// place, which PEFT gives no name, gets it too, because each adapter here has its own.
std::string name_in_model(const Tensor& tensor, const Selection& selection, std::string_view adapter);

// Returns the same for a table of the model that an adapter replaces. module: its name.
std::string table_in_model(std::string_view module, std::string_view adapter);

// The tensors of a file, with those of old experts stacked.
class AdapterFile {
 public:
  explicit AdapterFile(const std::string& path) : file_(path), tensors_(file_.tensors()) {}
  const std::string& path() const { return file_.path(); }
  const std::map<std::string, io::TensorView>& tensors() const { return tensors_; }
  void check() const { file_.check(); }  // throws Error(io) if it was cut since it was opened
  // Renames tensors with other names that from_pretrained or PEFT accept to those of `wanted`.
  void take_names(const std::vector<Tensor>& wanted);

 private:
  const io::Safetensors file_;
  std::map<std::string, io::TensorView> tensors_;
  const StackedExperts stacked_{path(), tensors_};
};

// Returns the rows of the input embedding, or else of the head, that an adapter's directory holds in addition
// to the adapter; 0: it holds none.
int64_t embedding_rows(const std::string& directory);

// Returns the path of the weights of an adapter's directory. Throws Error(not_found) if there are none.
std::string weights_path(const std::string& directory);
// Opens the weights of an adapter's directory. Each tensor must be one of `wanted`, have its shape and hold
// finite numbers of 16, 32 or 64 bits, and none may be missing. Throws Error(format) naming the file and the
// first tensor that fails.
std::unique_ptr<AdapterFile> open_weights(const std::string& directory, const std::vector<Tensor>& wanted);

// Throws Error(format) if the tensor's numbers are of another type, or one is not finite.
void check_numbers(const std::string& path, const std::string& name, const io::TensorView& view);

}  // namespace trl::adapter
