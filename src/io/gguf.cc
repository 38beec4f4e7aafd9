// Layout (ggml's gguf specification, versions 2 and 3): magic, version, counts, key-value pairs, tensor
// infos, padding to general.alignment, data. Every count is compared with the remaining bytes before anything
// is allocated for it.
#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/text/nearest.h"
#include "base/text/utf8.h"
#include "io/gguf_types.h"

namespace trl::io {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMaxAlignment = 1 << 20;

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}
  size_t position() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  std::string_view take(uint64_t count, std::string_view what) {
    if (count > left()) {
      fail(Status::format, "{}: truncated: {} at byte {} needs {} bytes, {} are left", path_, what, at_,
           count, left());
    }
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }
  template <typename T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::string_view string(std::string_view what) { return take(read<uint64_t>(what), what); }
  // Reads a key or a tensor name: they appear in messages, so they must be text.
  std::string name(std::string_view what) {
    const std::string_view text = string(what);
    const bool printable =
        std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32; });
    if (!printable || base::find_invalid_utf8(text) != base::kValid) {
      fail(Status::format, "{}: {} before byte {} is not text", path_, what, at_);
    }
    return std::string(text);
  }
  // Checks a count of things that take at least min_bytes each.
  uint64_t count(uint64_t value, uint64_t min_bytes, std::string_view what) const {
    if (value > left() / min_bytes) {
      fail(Status::format, "{}: truncated: {} {} cannot lie in the {} bytes that are left", path_, value,
           what, left());
    }
    return value;
  }

 private:
  std::string_view bytes_;
  const std::string& path_;
  size_t at_ = 0;
};

template <typename T>
std::vector<int64_t> read_integers(Reader& reader, uint64_t count, const std::string& key,
                                   const std::string& path) {
  std::vector<int64_t> values;
  values.reserve(reader.count(count, sizeof(T), "array items"));
  for (uint64_t i = 0; i < count; ++i) {
    const T value = reader.read<T>(key);
    if (static_cast<uint64_t>(value) > static_cast<uint64_t>(INT64_MAX) && value > 0) {
      fail(Status::format, "{}: {}: item {} is larger than 2^63 - 1", path, key, i);
    }
    values.push_back(static_cast<int64_t>(value));
  }
  return values;
}

template <typename T>
std::vector<double> read_numbers(Reader& reader, uint64_t count, const std::string& key) {
  std::vector<double> values;
  values.reserve(reader.count(count, sizeof(T), "array items"));
  for (uint64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(reader.read<T>(key)));
  return values;
}

GgufValue read_array(Reader& reader, const std::string& key, const std::string& path) {
  const uint32_t type = reader.read<uint32_t>(key);
  const uint64_t count = reader.read<uint64_t>(key);
  switch (type) {
    case kU8:
    case kBool:
      return read_integers<uint8_t>(reader, count, key, path);
    case kI8:
      return read_integers<int8_t>(reader, count, key, path);
    case kU16:
      return read_integers<uint16_t>(reader, count, key, path);
    case kI16:
      return read_integers<int16_t>(reader, count, key, path);
    case kU32:
      return read_integers<uint32_t>(reader, count, key, path);
    case kI32:
      return read_integers<int32_t>(reader, count, key, path);
    case kU64:
      return read_integers<uint64_t>(reader, count, key, path);
    case kI64:
      return read_integers<int64_t>(reader, count, key, path);
    case kF32:
      return read_numbers<float>(reader, count, key);
    case kF64:
      return read_numbers<double>(reader, count, key);
    case kString: {
      std::vector<std::string> values;
      values.reserve(reader.count(count, sizeof(uint64_t), "array items"));
      for (uint64_t i = 0; i < count; ++i) values.emplace_back(reader.string(key));
      return values;
    }
    case kArray:
      fail(Status::format, "{}: {}: arrays of arrays are not read", path, key);
    default:
      fail(Status::format, "{}: {}: array items have the unknown type {}", path, key, type);
  }
}

GgufValue read_value(Reader& reader, const std::string& key, const std::string& path) {
  const uint32_t type = reader.read<uint32_t>(key);
  switch (type) {
    case kU8:
      return static_cast<uint64_t>(reader.read<uint8_t>(key));
    case kI8:
      return static_cast<int64_t>(reader.read<int8_t>(key));
    case kU16:
      return static_cast<uint64_t>(reader.read<uint16_t>(key));
    case kI16:
      return static_cast<int64_t>(reader.read<int16_t>(key));
    case kU32:
      return static_cast<uint64_t>(reader.read<uint32_t>(key));
    case kI32:
      return static_cast<int64_t>(reader.read<int32_t>(key));
    case kU64:
      return reader.read<uint64_t>(key);
    case kI64:
      return reader.read<int64_t>(key);
    case kF32:
      return static_cast<double>(reader.read<float>(key));
    case kF64:
      return reader.read<double>(key);
    case kBool:
      return reader.read<uint8_t>(key) != 0;
    case kString:
      return std::string(reader.string(key));
    case kArray:
      return read_array(reader, key, path);
    default:
      fail(Status::format, "{}: {}: value has the unknown type {}", path, key, type);
  }
}

struct TensorInfo {
  std::string name;
  GgufTensor tensor;
  uint64_t offset;
};

const GgmlType& tensor_type(uint32_t number, const std::string& name, const std::string& path) {
  const GgmlType* type = find_ggml_type(number);
  if (type != nullptr && type->block > 0) return *type;
  fail(Status::unsupported, "{}: tensor {}: type {} is not read; these are: {}", path, name,
       type != nullptr ? std::string(type->name) : fmt::format("{}", number), readable_ggml_types());
}

TensorInfo read_info(Reader& reader, const std::string& path) {
  TensorInfo info;
  info.name = reader.name("tensor name");
  const uint32_t dimensions = reader.read<uint32_t>(info.name);
  if (dimensions == 0 || dimensions > 4) {
    fail(Status::format, "{}: tensor {}: {} dimensions; 1 to 4 are possible", path, info.name, dimensions);
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    const uint64_t extent = reader.read<uint64_t>(info.name);
    if (extent == 0 || __builtin_mul_overflow(elements, extent, &elements) || elements > uint64_t{1} << 60) {
      fail(Status::format, "{}: tensor {}: dimension {} is {}, or the shape is too large", path, info.name, i,
           extent);
    }
    info.tensor.shape.insert(info.tensor.shape.begin(), static_cast<int64_t>(extent));
  }
  info.tensor.type = reader.read<uint32_t>(info.name);
  const GgmlType& type = tensor_type(info.tensor.type, info.name, path);
  info.tensor.type_name = type.name;
  const uint64_t row = static_cast<uint64_t>(info.tensor.shape.back());
  if (row % static_cast<uint64_t>(type.block) != 0) {
    fail(Status::format, "{}: tensor {}: rows of {} are not a multiple of the {} elements of a {} block",
         path, info.name, row, type.block, type.name);
  }
  info.tensor.bytes = elements / static_cast<uint64_t>(type.block) * static_cast<uint64_t>(type.bytes);
  info.offset = reader.read<uint64_t>(info.name);
  return info;
}

// Gives every tensor its bytes; none may leave the data, be misaligned or overlap another.
void place(std::vector<TensorInfo>& infos, std::string_view data, uint64_t alignment,
           const std::string& path) {
  std::sort(infos.begin(), infos.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (TensorInfo& info : infos) {
    if (info.offset % alignment != 0) {
      fail(Status::format, "{}: tensor {}: offset {} is not a multiple of the alignment {}", path, info.name,
           info.offset, alignment);
    }
    if (info.offset < end) {
      fail(Status::format, "{}: tensor {}: offset {} lies inside another tensor", path, info.name,
           info.offset);
    }
    if (info.offset > data.size() || info.tensor.bytes > data.size() - info.offset) {
      fail(Status::format, "{}: truncated: tensor {} needs bytes {} to {} of the data, there are {}", path,
           info.name, info.offset, info.offset + info.tensor.bytes, data.size());
    }
    info.tensor.data = data.data() + info.offset;
    end = info.offset + info.tensor.bytes;
  }
}

void check_version(uint32_t version, const std::string& path) {
  if (version == 2 || version == 3) return;
  if (version == 0x02000000 || version == 0x03000000) {
    fail(Status::unsupported, "{}: big-endian GGUF is not read", path);
  }
  fail(Status::unsupported, "{}: GGUF version {} is not read; 2 and 3 are", path, version);
}

}  // namespace

Gguf::Gguf(const std::string& path) : file_(path) {
  Reader reader(file_.bytes(), path);
  if (reader.left() < kMagic.size() || reader.take(kMagic.size(), "magic") != kMagic) {
    fail(Status::format, "{}: not a GGUF file: it does not begin with \"GGUF\"", path);
  }
  check_version(reader.read<uint32_t>("version"), path);
  const uint64_t tensor_count = reader.read<uint64_t>("tensor count");
  const uint64_t pair_count = reader.read<uint64_t>("metadata count");
  reader.count(pair_count, 13, "metadata pairs");  // key length, value type, one byte
  for (uint64_t i = 0; i < pair_count; ++i) {
    const std::string key = reader.name("metadata key");
    if (metadata_.contains(key)) fail(Status::format, "{}: metadata key {} appears twice", path, key);
    metadata_.emplace(key, read_value(reader, key, path));
  }
  uint64_t alignment = 32;
  if (find("general.alignment") != nullptr) {
    const int64_t value = integer("general.alignment");
    if (value < 1 || static_cast<uint64_t>(value) > kMaxAlignment ||
        !std::has_single_bit(static_cast<uint64_t>(value))) {
      fail(Status::format, "{}: general.alignment is {}; a power of two up to {} is possible", path, value,
           kMaxAlignment);
    }
    alignment = static_cast<uint64_t>(value);
  }
  std::vector<TensorInfo> infos;
  infos.reserve(
      reader.count(tensor_count, 32, "tensors"));  // name length, dimensions, one extent, type, offset
  for (uint64_t i = 0; i < tensor_count; ++i) infos.push_back(read_info(reader, path));
  const size_t begin = (reader.position() + alignment - 1) / alignment * alignment;
  const std::string_view bytes = file_.bytes();
  place(infos, begin < bytes.size() ? bytes.substr(begin) : std::string_view(), alignment, path);
  for (TensorInfo& info : infos) {
    if (!tensors_.emplace(info.name, std::move(info.tensor)).second) {
      fail(Status::format, "{}: tensor {} appears twice", path, info.name);
    }
  }
}

void Gguf::need_model() const {
  if (find("general.type") == nullptr || text("general.type") != "adapter") return;
  fail(Status::unsupported,
       "{}: it is the GGUF file of a LoRA adapter, which llama.cpp takes beside a model: give the model, and "
       "the adapter as the directory that the file was made from",
       path());
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

namespace {
const GgufValue& need(const GgufValue* value, const std::string& path, std::string_view key) {
  if (value == nullptr) fail(Status::format, "{}: metadata key {} is missing", path, key);
  return *value;
}
}  // namespace

std::string Gguf::text(std::string_view key) const {
  const std::string* value = std::get_if<std::string>(&need(find(key), path(), key));
  if (value == nullptr) fail(Status::format, "{}: metadata key {} is not a string", path(), key);
  return *value;
}

int64_t Gguf::integer(std::string_view key) const {
  const GgufValue& value = need(find(key), path(), key);
  if (const int64_t* number = std::get_if<int64_t>(&value)) return *number;
  const uint64_t* number = std::get_if<uint64_t>(&value);
  if (number == nullptr) fail(Status::format, "{}: metadata key {} is not an integer", path(), key);
  if (*number > static_cast<uint64_t>(INT64_MAX)) {
    fail(Status::format, "{}: metadata key {} is {}, larger than 2^63 - 1", path(), key, *number);
  }
  return static_cast<int64_t>(*number);
}

double Gguf::number(std::string_view key) const {
  const GgufValue& value = need(find(key), path(), key);
  if (const double* number = std::get_if<double>(&value)) return *number;
  return static_cast<double>(integer(key));
}

bool is_gguf(const std::string& path) {
  if (!base::file_exists(path) || base::is_directory(path)) return false;
  const base::MappedFile file(path);
  base::refuse_lfs_pointer(file.bytes(), path);
  return file.bytes().starts_with(kMagic);
}

}  // namespace trl::io
