// Loads the matrices of linear layers that are held in another form than numbers of the model's type: in
// blocks, in bfloat16, or in their file.
#include "base/error.h"
#include "kernels/weight/stored_weight.h"
#include "model/loader/loader.h"
#include "model/loader/quantised.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::model {

namespace {

at::Tensor turned(const at::Tensor& matrix) {
  at::Tensor out =
      tensor::empty({matrix.size(1), matrix.size(0)}, matrix.scalar_type(), tensor::MemoryKind::workspace);
  tensor::copy_in_parts(out, matrix.t());
  return out;
}

const char* key_of(const config::Quantization& quantization) {
  return quantization.form == config::WeightForm::int8 ? "load_in_8bit" : "load_in_4bit";
}

}  // namespace

// A matrix in blocks: as in the files, or encoded from the ordinary weight, which exists only meanwhile;
// turn: from its transpose. Null: it is held as numbers.
std::shared_ptr<const tensor::Encoded> Loader::blocks(const std::string& name, int64_t rows, int64_t columns,
                                                      bool turn) {
  if (auto values = prequantised(source_, name, {rows, columns}, used_)) {
    const bool eight = values->form() == "int8";
    if (quantization_ && eight != (quantization_.form == config::WeightForm::int8)) {
      fail_key(key_of(quantization_), "{}: true contradicts the files: {} is stored as {}",
               key_of(quantization_), source_.place(name), values->form());
    }
    used_.insert(name);
    tell(std::ssize(used_));
    return values;
  }
  if (!quantization_) return nullptr;
  const std::vector<int64_t> shape = turn ? std::vector{columns, rows} : std::vector{rows, columns};
  check(name, shape);
  return quantised(source_.place(name), turn ? turned(read(name, shape)) : read(name, shape), quantization_);
}

// Converts a wider weight of a linear layer to bfloat16; null: it stays in its file.
std::shared_ptr<const tensor::Encoded> Loader::narrowed(const std::string& name, int64_t rows,
                                                        int64_t columns) const {
  const std::string type = source_.type(name);
  if (held_ != Held::for_bfloat16 || (type != "F32" && type != "F16" && type != "F64")) return nullptr;
  at::Tensor values = tensor::empty({rows, columns}, at::kBFloat16, tensor::MemoryKind::weights);
  source_.read(name, values);
  return kernels::bfloat16_weight(values);
}

// [out, in], also for a family whose files have [in, out]; null: it is held as numbers.
tensor::Parameter* Loader::encoded_linear(const std::string& module, int64_t rows, int64_t columns) {
  const std::string own = module + ".weight", name = stored_name(source_, *config_.family, own);
  const bool turn = config_.family->transposed;
  auto values = blocks(name, rows, columns, turn);
  if (values == nullptr && held_ != Held::numbers) {
    check(name, turn ? std::vector{columns, rows} : std::vector{rows, columns});
    if (!turn) values = narrowed(name, rows, columns);
    if (values == nullptr && !turn) {
      if (tensor::Parameter* const parameter = add_mapped(own, name)) return parameter;
    }
    if (values == nullptr) values = source_.encoded(name, turn);
  }
  if (values == nullptr) return nullptr;
  tensor::Parameter* const parameter = add(own, name, std::move(values));
  if (turn) loaded_.parts[parameter] = {{.name = name, .transposed = true}};
  return parameter;
}

}  // namespace trl::model
