// Reads weights that bitsandbytes quantised before they were saved.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json/json.h"
#include "io/four_bit.h"
#include "io/safetensors.h"
#include "kernels/weight/encoded_weight.h"
#include "model/loader/quantised.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {

using base::Json;

// The tensors that make up one weight.
class Parts {
 public:
  Parts(const WeightSource& source, std::string name, std::set<std::string>& used)
      : source_(source), name_(std::move(name)), used_(used) {}

  std::string place(const std::string& part) const { return source_.place(name_ + part); }
  bool has(const std::string& part) const { return source_.raw(name_ + part) != nullptr; }
  const io::TensorView& view(const std::string& part) const {
    const io::TensorView* const view = source_.raw(name_ + part);
    if (view == nullptr)
      fail(Status::format, "{} is missing, which belongs to a quantised weight", place(part));
    used_.insert(name_ + part);
    return *view;
  }
  // A copy of its bytes, as `count` elements of `type`.
  at::Tensor tensor(const std::string& part, at::ScalarType type, int64_t count) const {
    const io::TensorView& view = this->view(part);
    const auto bytes = static_cast<size_t>(count) * c10::elementSize(type);
    if (view.bytes != bytes) {
      fail(Status::format, "{} has {} bytes; {} of shape [{}] has {} there", place(part), view.bytes, name_,
           fmt::join(shape, ", "), bytes);
    }
    at::Tensor out = tensor::empty({count}, type, tensor::MemoryKind::weights);
    std::memcpy(out.data_ptr(), view.data, bytes);
    if (type == at::kFloat) check_finite(part, out);
    source_.forget(name_ + part);  // else it would be in memory twice
    return out;
  }

  std::vector<int64_t> shape = {};

 private:
  void check_finite(const std::string& part, const at::Tensor& values) const {
    const float* const begin = values.data_ptr<float>();
    const float* const end = begin + values.numel();
    const float* const found = std::find_if_not(begin, end, [](float value) { return std::isfinite(value); });
    if (found != end) fail(Status::format, "{}: element {} is {}", place(part), found - begin, *found);
  }

  const WeightSource& source_;
  const std::string name_;
  std::set<std::string>& used_;
};

// The content of a quant_state.
class State {
 public:
  State(const Parts& parts, const std::string& part) : place_(parts.place(part)) {
    const io::TensorView& view = parts.view(part);
    json_ = base::parse_json(std::string_view(static_cast<const char*>(view.data), view.bytes), place_);
    if (!json_.is_object()) fail(Status::format, "{}: not a JSON object", place_);
  }
  template <typename T>
  T get(const char* key, const char* what) const {
    const auto found = json_.find(key);
    try {
      if (found != json_.end()) return found->get<T>();
    } catch (const Json::exception&) {
    }
    fail(Status::format, "{}: \"{}\" is {}; it should be {}", place_, key,
         found == json_.end() ? "missing" : found->dump(), what);
  }
  // The number of elements in a block.
  int64_t block(const char* key) const {
    const auto size = get<int64_t>(key, "a power of two");
    if (size < 2 || size > (1 << 20) || (size & (size - 1)) != 0)
      fail(Status::format, "{}: \"{}\" is {}; it should be a power of two", place_, key, size);
    return size;
  }
  bool has(const char* key) const { return json_.contains(key); }
  const std::string& place() const { return place_; }

 private:
  const std::string place_;
  Json json_;
};

constexpr const char* kState = ".quant_state.bitsandbytes__";

std::shared_ptr<const tensor::Encoded> four_bit(const Parts& parts, const std::string& type) {
  const State state(parts, kState + type);
  if (const auto own = state.get<std::string>("quant_type", "the type of its name"); own != type)
    fail(Status::format, "{}: \"quant_type\" is \"{}\"; its name has {}", state.place(), own, type);
  if (const auto own = state.get<std::vector<int64_t>>("shape", "a list of sizes"); own != parts.shape) {
    fail(Status::format, "{}: \"shape\" is [{}]; config.json asks for [{}]", state.place(),
         fmt::join(own, ", "), fmt::join(parts.shape, ", "));
  }
  const int64_t count = parts.shape[0] * parts.shape[1];
  kernels::FourBitValues out{.type = type == "nf4" ? io::FourBit::nf4 : io::FourBit::fp4,
                             .block = state.block("blocksize")};
  const int64_t blocks = (count + out.block - 1) / out.block;
  out.codes = parts.tensor("", at::kByte, (count + 1) / 2);
  const at::Tensor map = parts.tensor(".quant_map", at::kFloat, 16);
  const std::array<float, 16>& code = io::four_bit_code(out.type);
  if (!std::equal(code.begin(), code.end(), map.data_ptr<float>()))
    fail(Status::unsupported, "{}: these are not the values of {} codes", parts.place(".quant_map"), type);
  if (!state.has("nested_blocksize")) {
    out.absmax = parts.tensor(".absmax", at::kFloat, blocks);
    return kernels::four_bit_weight(parts.shape, std::move(out));
  }
  out.nested_block = state.block("nested_blocksize");
  out.offset = state.get<float>("nested_offset", "a number");
  if (!std::isfinite(out.offset))
    fail(Status::format, "{}: \"nested_offset\" is {}; it should be a number", state.place(), out.offset);
  out.absmax = parts.tensor(".absmax", at::kByte, blocks);
  out.nested_absmax =
      parts.tensor(".nested_absmax", at::kFloat, (blocks + out.nested_block - 1) / out.nested_block);
  out.nested_code = parts.tensor(".nested_quant_map", at::kFloat, 256);
  return kernels::four_bit_weight(parts.shape, std::move(out));
}

}  // namespace

std::shared_ptr<const tensor::Encoded> prequantised(const WeightSource& source, const std::string& name,
                                                    const std::vector<int64_t>& shape,
                                                    std::set<std::string>& used) {
  Parts parts(source, name, used);
  parts.shape = shape;
  for (const char* type : {"nf4", "fp4"})
    if (parts.has(kState + std::string(type))) return four_bit(parts, type);
  if (parts.has(".absmax")) {
    fail(Status::format, "{} is missing, or that of fp4: {} is there",
         parts.place(std::string(kState) + "nf4"), parts.place(".absmax"));
  }
  const std::string module = name.substr(0, name.rfind(".weight"));
  Parts rows(source, module, used);
  if (!rows.has(".SCB")) return nullptr;
  rows.shape = shape;
  if (rows.has(".weight_format")) rows.view(".weight_format");
  at::Tensor codes = rows.tensor(".weight", at::kChar, shape[0] * shape[1]).view(shape);
  return kernels::int8_weight(shape, std::move(codes), rows.tensor(".SCB", at::kFloat, shape[0]));
}

}  // namespace trl::model
