#include "checkpoint/cast_adapter.h"

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "base/files/staged_directory.h"
#include "checkpoint/directory.h"
#include "checkpoint/gguf_file.h"
#include "io/safetensors.h"

namespace trl::checkpoint {

namespace {

io::NamedTensor in_type(const std::string& path, const std::string& name, const io::TensorView& view,
                        std::string_view type) {
  const io::GgmlType& written = gguf_type(type, view.type_name);
  const auto read = [&view](int64_t first, int64_t count, float* out) {
    io::read_floats(view.type, view.data, first, count, out);
  };
  return {name, number_type(written), view.shape, nullptr,
          [&written, read, place = path + ": tensor " + name](int64_t first, int64_t count, char* out) {
            encode(written, place, first, count, reinterpret_cast<uint8_t*>(out), read);
          }};
}

}  // namespace

void cast_adapter(const std::string& path, const std::string& target, std::string_view type,
                  std::span<const engine::NamedBytes> files) {
  refuse_checkpoint(target);
  adapter::read_config(path);  // refuses other kinds of adapters
  const io::Safetensors file(adapter::weights_path(path));
  std::vector<io::NamedTensor> tensors;
  for (const auto& [name, view] : file.tensors()) {
    adapter::check_numbers(file.path(), name, view);
    tensors.push_back(in_type(file.path(), name, view, type));
  }
  base::StagedDirectory staged(target);
  staged.write(adapter::kWeightsFile,
               [&](base::FileWriter& writer) { io::write_safetensors(writer, tensors); });
  file.check();
  for (const engine::NamedBytes& one : files) staged.write(one.name, one.bytes);
  staged.commit();
}

}  // namespace trl::checkpoint
