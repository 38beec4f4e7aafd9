#include "capi/model/dlpack.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"

namespace trl::capi {

namespace {

constexpr int32_t kHost = 1, kCuda = 2;
constexpr uint8_t kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4;

struct Known {
  io::ElementType type;
  uint8_t code, bits;
};
constexpr Known kTypes[] = {
    {io::ElementType::f32, kFloat, 32},   {io::ElementType::f16, kFloat, 16},
    {io::ElementType::bf16, kBfloat, 16}, {io::ElementType::f64, kFloat, 64},
    {io::ElementType::i64, kInt, 64},     {io::ElementType::i32, kInt, 32},
    {io::ElementType::u8, kUnsigned, 8},
};

// A tensor that was handed out, with all that it refers to.
struct HandedOut {
  DLManagedTensorVersioned managed = {};
  engine::HeldTensor tensor;
  std::vector<int64_t> strides;
  const int process = ::getpid();
};

std::vector<int64_t> contiguous_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = static_cast<int64_t>(static_cast<uint64_t>(strides[i]) *
                                          static_cast<uint64_t>(std::max<int64_t>(1, shape[i])));
  return strides;
}

// A forked child leaves it alone: locks of the parent's other threads do not exist there.
void free_handed_out(DLManagedTensorVersioned* self) {
  auto* const all = static_cast<HandedOut*>(self->manager_ctx);
  if (all->process == ::getpid()) delete all;
}

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(Status::invalid_argument, "tensor: {}", fmt::format(format, std::forward<Args>(args)...));
}

io::ElementType type_of(const dlpack::Type& given) {
  for (const Known& known : kTypes)
    if (known.code == given.code && known.bits == given.bits && given.lanes == 1 &&
        (known.code == kFloat || known.code == kBfloat))
      return known.type;
  refuse(
      "its type has code {}, {} bits and {} lanes; accepted: float16, float32, float64 (code 2), bfloat16 "
      "(code 4), one lane",
      given.code, given.bits, given.lanes);
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(engine::HeldTensor tensor, bool read_only) {
  auto all = std::make_unique<HandedOut>();
  all->tensor = std::move(tensor);
  all->strides = contiguous_strides(all->tensor.shape);
  const Known& type = *std::ranges::find(kTypes, all->tensor.type, &Known::type);
  const int32_t gpu = all->tensor.gpu;
  all->managed = {.version = {dlpack::kMajor, dlpack::kMinor},
                  .manager_ctx = all.get(),
                  .deleter = free_handed_out,
                  .flags = read_only ? dlpack::kReadOnly : dlpack::kIsCopied,
                  .dl_tensor = {.data = all->tensor.data,
                                .device = {gpu < 0 ? kHost : kCuda, std::max(gpu, 0)},
                                .ndim = static_cast<int32_t>(all->tensor.shape.size()),
                                .dtype = {type.code, type.bits, 1},
                                .shape = all->tensor.shape.data(),
                                .strides = all->strides.data(),
                                .byte_offset = 0}};
  return &all.release()->managed;
}

void exchange_copy(DLManagedTensorVersioned* copy, const std::function<void(engine::HeldTensor&)>& body) {
  if (copy == nullptr || copy->deleter != free_handed_out || (copy->flags & dlpack::kIsCopied) == 0)
    refuse("it is not a copy that trl_model_read_tensor has made");
  engine::HeldTensor& tensor = static_cast<HandedOut*>(copy->manager_ctx)->tensor;
  body(tensor);
  copy->dl_tensor.data = tensor.data;
}

HostTensor::HostTensor(const DLManagedTensorVersioned& given) {
  if (given.version.major != dlpack::kMajor)
    refuse("its version is {}.{}; accepted: {}", given.version.major, given.version.minor, dlpack::kMajor);
  const dlpack::Tensor& tensor = given.dl_tensor;
  if (tensor.device.type != kHost)
    refuse("it lies on a device of type {}; accepted: 1, the host's memory", tensor.device.type);
  type_ = type_of(tensor.dtype);
  constexpr int32_t kMostDimensions = 8;  // no weight has as many
  if (tensor.ndim < 0 || tensor.ndim > kMostDimensions)
    refuse("ndim is {}; accepted: 0 to {}", tensor.ndim, kMostDimensions);
  const auto rank = static_cast<size_t>(tensor.ndim);
  if (rank > 0 && tensor.shape == nullptr) refuse("shape is NULL with ndim {}", tensor.ndim);
  shape_.assign(tensor.shape, tensor.shape + rank);
  for (const int64_t extent : shape_)
    if (extent < 0) refuse("shape is [{}]", fmt::join(shape_, ", "));
  if (tensor.strides != nullptr)
    strides_.assign(tensor.strides, tensor.strides + rank);
  else
    strides_ = contiguous_strides(shape_);
  for (size_t i = 0; i < rank; ++i)
    if (shape_[i] <= 1) strides_[i] = 1;  // it is never used, and may be anything
  const bool empty = std::ranges::find(shape_, 0) != shape_.end();
  if (tensor.data == nullptr && !empty) refuse("data is NULL");
  data_ = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  if (reinterpret_cast<uintptr_t>(data_) % io::element_size(type_) != 0)
    refuse("data with byte_offset {} is not at a multiple of the {} bytes of a number", tensor.byte_offset,
           io::element_size(type_));
}

}  // namespace trl::capi
