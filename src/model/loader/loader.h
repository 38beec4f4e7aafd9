// Reads the weights of a decoder under the names of its row in the table of families.
#pragma once
#include <ATen/ATen.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/model_options.h"
#include "model/config/model_config.h"
#include "model/layer/decoder_layer.h"
#include "model/weights/weights.h"

namespace trl::model {

// How files store a parameter: as one tensor, or as one for every part of it (experts).
struct StoredPart {
  std::string name;
  int64_t expert = -1;           // the first index; -1: all of it
  int64_t first = 0, rows = -1;  // rows within the expert's matrix; -1: all
  bool transposed = false;       // files store the whole as [in, out], the parameter is [out, in]
  std::vector<int64_t> shape(at::IntArrayRef whole) const {
    if (transposed) return {whole[1], whole[0]};
    if (expert < 0) return whole.vec();
    return {rows < 0 ? whole[1] : rows, whole[2]};
  }
  // values: the parameter's, or a tensor of its shape.
  at::Tensor of(const at::Tensor& values) const {
    if (transposed) return values.t();
    if (expert < 0) return values;
    const at::Tensor matrix = values.select(0, expert);
    return rows < 0 ? matrix : matrix.narrow(0, first, rows);
  }
};

struct LoadedParameters {
  std::vector<std::unique_ptr<tensor::Parameter>> all;
  std::map<const tensor::Parameter*, std::vector<StoredPart>> parts;  // parameters that files store in parts
  std::map<const tensor::Parameter*, std::string> names;  // the family's names, even if the files' differ
};

// How matrices are held: as numbers of the model's type in memory, or mapped from the files. for_bfloat16:
// mapped too, except for linear layers with wider numbers: their products are in bfloat16, so they are held
// in memory as bfloat16.
enum class Held : uint8_t { numbers, as_stored, for_bfloat16 };

class Loader {
 public:
  // loaded: gets each parameter, in the order of reading.
  Loader(const ModelConfig& config, const WeightSource& source, at::ScalarType dtype, at::Device device,
         const config::Quantization& quantization, Held held, LoadedParameters& loaded);

  tensor::Parameter* embedding();
  tensor::Parameter* positions();  // null: the family learns none
  tensor::Parameter* head(tensor::Parameter* embedding);
  tensor::Parameter* score(at::Generator& generator);  // a classifier's head; a new one is drawn
  Norm final_norm();
  std::unique_ptr<DecoderLayer> layer(int64_t index);
  std::vector<std::string> carried();  // names of weights that are saved unchanged
  void report_others(base::LogSink* log) const;

 private:
  tensor::Parameter* load(const std::string& name, const std::vector<int64_t>& shape, bool decay);
  tensor::Parameter* matrix(const std::string& name, int64_t rows, int64_t columns);
  Norm norm(const std::string& name, const std::vector<int64_t>& shape);
  Norm norm_of_heads(const std::string& prefix, std::string_view name, int64_t heads);
  kernels::Projection projection(const std::string& name, int64_t in, int64_t out, bool bias);
  kernels::Projection router(const std::string& name, int64_t in, int64_t out);
  tensor::Parameter* encoded_linear(const std::string& module, int64_t rows, int64_t columns);
  std::shared_ptr<const tensor::Encoded> blocks(const std::string& name, int64_t rows, int64_t columns,
                                                bool turn = false);
  std::shared_ptr<const tensor::Encoded> narrowed(const std::string& name, int64_t rows,
                                                  int64_t columns) const;
  tensor::Parameter* experts_in_blocks(const std::string& name, int64_t rows, int64_t columns,
                                       const std::vector<StoredPart>& parts);
  tensor::Parameter* add(const std::string& own, const std::string& name,
                         std::shared_ptr<const tensor::Encoded> values);
  tensor::Parameter* add(const std::string& own, const std::string& name, at::Tensor values);
  tensor::Parameter* add_mapped(const std::string& own,
                                const std::string& name);  // null: it has no such form
  at::Tensor read(const std::string& name, const std::vector<int64_t>& shape) const;
  BlockAttention attention(const std::string& prefix, int64_t index);
  BlockMlp mlp(const std::string& prefix);
  BlockMlp shared_expert(const std::string& prefix);
  BlockExperts experts(const std::string& prefix);
  tensor::Parameter* expert_weights(const std::string& name, int64_t rows, int64_t columns,
                                    const std::vector<StoredPart>& parts);
  // Throws unless the tensor exists with this shape; marks it as used.
  void check(const std::string& name, const std::vector<int64_t>& shape);
  void tell(int64_t done) const;
  void check_tied(tensor::Parameter& embedding);
  void read(const std::string& name, at::Tensor& out) const;

  const ModelConfig& config_;
  const Names& names_;
  const WeightSource& source_;
  const at::ScalarType dtype_;
  const at::Device device_;
  const config::Quantization quantization_;
  const Held held_;
  LoadedParameters& loaded_;
  const int64_t tensors_;  // number of stored tensors
  std::set<std::string> used_;
};

}  // namespace trl::model
