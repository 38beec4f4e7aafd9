#include "run/server/tensors_out.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/tensor_message.h"
#include "base/text/number.h"
#include "run/server/own_tensors.h"

namespace trl::run {

namespace {

namespace form = base::tensor_message;

constexpr const char* kList = "/trl/weights";

std::string hash_text(std::string_view bytes) { return fmt::format("{:016x}", base::xxh3_64(bytes)); }

// Returns the beginning of a message, up to its first number.
std::string head_of(const std::string& header) {
  const uint64_t size = header.size();
  std::string head(form::kMagic, sizeof form::kMagic);
  head.append(reinterpret_cast<const char*>(&form::kVersion), sizeof form::kVersion);
  head.append(reinterpret_cast<const char*>(&size), sizeof size);
  head += header;
  head.resize(form::aligned(head.size()));
  return head;
}

}  // namespace

// A tensor that the server has.
struct TensorsOut::Tensor {
  std::string name = {}, dtype = {}, hash = {};
  std::vector<int64_t> shape = {};
  std::string own_hash = {};  // of the run's numbers

  size_t bytes() const {
    size_t all = form::number_size(dtype);
    for (const int64_t extent : shape) all *= static_cast<size_t>(extent);
    return all;
  }
  bool changed() const { return own_hash != hash; }
};

TensorsOut::TensorsOut(engine::Model& model, Exchange& exchange, base::ThreadPool& pool, base::LogSink& log,
                       std::unique_ptr<MessageMemory> memory, std::string served)
    : model_(model),
      exchange_(exchange),
      pool_(pool),
      log_(log),
      memory_(std::move(memory)),
      served_(std::move(served)) {}

TensorsOut::~TensorsOut() = default;

std::string TensorsOut::send(int64_t step) {
  if (sent_ == step) return served_;
  // A second client, or a host of the server, may have replaced them meanwhile.
  for (int left = 2; !send_changed(step); --left)
    if (left == 0)
      exchange_.fail_server(kList,
                            "another client replaces the weights of this server: give the run its own");
  sent_ = step;
  return served_;
}

// Returns the tensors of the server. Throws Error for kServerKey if it has another model than the run.
std::vector<TensorsOut::Tensor> TensorsOut::tensors_of_server(int64_t* version) {
  const base::Json listed = exchange_.get_json(kList);
  std::map<std::string, OwnTensor, std::less<>> own;
  for (OwnTensor& one : own_tensors(model_)) own.emplace(one.name, std::move(one));
  std::vector<Tensor> all;
  try {
    *version = listed.at("version").get<int64_t>();
    for (const base::Json& one : listed.at("tensors")) {
      if (one.at("hash").is_null()) continue;
      all.push_back({.name = one.at("name").get<std::string>(),
                     .dtype = one.at("dtype").get<std::string>(),
                     .hash = one.at("hash").get<std::string>(),
                     .shape = one.at("shape").get<std::vector<int64_t>>()});
    }
  } catch (const base::Json::exception& why) {
    exchange_.fail_server(kList, fmt::format("the answer is none of this library's: {}", why.what()));
  }
  size_t trained = 0;
  for (const auto& [name, one] : own) trained += one.trained ? 1 : 0;
  std::erase_if(all, [&](const Tensor& tensor) {
    const auto found = own.find(tensor.name);
    if (found == own.end())
      exchange_.fail_server(
          kList, fmt::format("the server has another model: the run has no tensor {}", tensor.name));
    if (found->second.shape != tensor.shape)
      exchange_.fail_server(
          kList,
          fmt::format("the server has another model: {} has the shape [{}], and the run's [{}]", tensor.name,
                      fmt::join(tensor.shape, ", "), fmt::join(found->second.shape, ", ")));
    if (found->second.trained) --trained;
    return form::number_size(tensor.dtype) == 0;
  });
  if (trained > 0)
    exchange_.fail_server(
        kList,
        fmt::format(
            "the server has another model: it lacks {} that the run trains, or holds them in blocks: serve "
            "the model that is trained, without quantisation",
            base::quantity(trained, "tensor")));
  return all;
}

// Hashes of tensors that are held as the server's are made side by side, without copies.
void TensorsOut::compare(std::vector<Tensor>& tensors) {
  struct Held {
    Tensor* tensor;
    std::string_view bytes;
    engine::HeldTensor numbers;
  };
  std::vector<Held> all;
  for (Tensor& tensor : tensors) {
    engine::HeldTensor numbers;
    if (const auto bytes = bytes_where_they_lie(model_, tensor.name, tensor.dtype, numbers))
      all.push_back({&tensor, *bytes, std::move(numbers)});
    else
      tensor.own_hash = hash_text(numbers_as(model_, tensor.name, tensor.dtype, pool_).bytes);
  }
  pool_.parallel_for(std::ssize(all), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Held& one = all[static_cast<size_t>(i)];
      one.tensor->own_hash = hash_text(one.bytes);
    }
  });
}

// Sends what differs. false: the server's weights have been replaced since they were compared.
bool TensorsOut::send_changed(int64_t step) {
  int64_t version = 0;
  std::vector<Tensor> tensors = tensors_of_server(&version);
  compare(tensors);
  base::Json header = {{"step", step}, {"base_version", version}};
  base::Json changed = base::Json::array(), unchanged = base::Json::array();
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (!tensor.changed()) {
      unchanged.push_back({{"name", tensor.name}, {"hash", tensor.hash}});
      continue;
    }
    bytes += form::aligned(tensor.bytes());
    changed.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes()},
                       {"hash", tensor.own_hash}});
  }
  if (changed.empty()) return true;
  const size_t count = changed.size();
  header["tensors"] = std::move(changed);
  header["unchanged"] = std::move(unchanged);
  const std::string head = head_of(header.dump());
  memory_->begin(head.size() + bytes);
  memory_->write(0, head);
  size_t begin = head.size();
  constexpr char kZeros[form::kAlign] = {};
  for (const Tensor& tensor : tensors) {
    if (!tensor.changed()) continue;
    each_part(read_numbers(model_, tensor.name), tensor.dtype, pool_,
              [&](size_t at, std::string_view part) { memory_->write(begin + at, part); });
    const size_t end = form::aligned(tensor.bytes());
    memory_->write(begin + tensor.bytes(), {kZeros, end - tensor.bytes()});
    begin += end;
  }
  const Answer answer = memory_->send();
  // 404: another client has asked for shared memory since.
  if (answer.status == 409 || answer.status == 404) return false;
  if (answer.status != 200) exchange_.refuse(kList, answer);
  log_.info("server", "{} of {} tensors were sent, {} bytes", count, tensors.size(), begin);
  return true;
}

}  // namespace trl::run
