#include "run/server/tensors_out.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/files/hashed_copy.h"
#include "base/tensor_message.h"
#include "base/text/number.h"
#include "run/server/own_tensors.h"

namespace trl::run {

namespace {

namespace form = base::tensor_message;

constexpr const char* kList = "/trl/weights";

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

// Returns the beginning of a message, up to its first number. bytes: it has at least so many, of which blanks
// at the end of the header are a part.
std::string head_of(std::string header, size_t bytes) {
  if (form::kHeaderAt + header.size() < bytes) header.resize(bytes - form::kHeaderAt, ' ');
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
  bool sent = false;          // the message has a place for it
  size_t at = 0;              // that place
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

void TensorsOut::forget() {
  sent_.reset();
  changing_.clear();
}

namespace {

uint64_t hash_of(const engine::HeldTensor& numbers, std::string_view dtype) {
  base::Xxh3 hash;
  each_piece(numbers, dtype, [&](std::string_view piece) { hash.update(piece); });
  return hash.digest();
}

uint64_t copy_hashed(const engine::HeldTensor& numbers, std::string_view dtype, char* to) {
  base::HashedCopy copy(to);
  each_piece(numbers, dtype, [&](std::string_view piece) { copy.add(piece); });
  return copy.hash();
}

// Sets the own hash of tensors to hash(tensor, numbers): side by side, the largest first, and one after the
// other those whose numbers are read as copies.
template <class T, class Hash>
void hash_each(engine::Model& model, base::ThreadPool& pool, std::vector<T*> tensors, const Hash& hash) {
  std::ranges::stable_sort(tensors, std::ranges::greater(), [](const T* one) { return one->bytes(); });
  std::vector<std::pair<T*, engine::HeldTensor>> held;
  for (T* const tensor : tensors) {
    if (std::optional<engine::HeldTensor> numbers = view_numbers(model, tensor->name))
      held.emplace_back(tensor, *std::move(numbers));
    else
      tensor->own_hash = hash_text(hash(*tensor, read_numbers(model, tensor->name)));
  }
  pool.parallel_for(std::ssize(held), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [tensor, numbers] = held[static_cast<size_t>(i)];
      tensor->own_hash = hash_text(hash(*tensor, numbers));
    }
  });
}

}  // namespace

// Hashes the tensors that did not differ the last time; the others are hashed while they are written.
void TensorsOut::compare(std::vector<Tensor>& tensors) {
  std::vector<Tensor*> all;
  for (Tensor& tensor : tensors)
    if (!changing_.contains(tensor.name)) all.push_back(&tensor);
  hash_each(model_, pool_, std::move(all), [](const Tensor& tensor, const engine::HeldTensor& numbers) {
    return hash_of(numbers, tensor.dtype);
  });
}

// Writes the numbers of tensors to their places.
void TensorsOut::write(std::vector<Tensor*>& tensors, char* message) {
  hash_each(model_, pool_, tensors, [&](const Tensor& tensor, const engine::HeldTensor& numbers) {
    return copy_hashed(numbers, tensor.dtype, message + tensor.at);
  });
  for (const Tensor* const tensor : tensors)
    std::memset(message + tensor->at + tensor->bytes(), 0, form::aligned(tensor->bytes()) - tensor->bytes());
}

namespace {

// Returns the header of a message with the tensors of which sends() says so.
template <class T, class Sends>
std::string header_of(const std::vector<T>& tensors, int64_t step, int64_t version, const Sends& sends) {
  base::Json changed = base::Json::array(), unchanged = base::Json::array();
  for (const T& tensor : tensors) {
    if (!sends(tensor)) {
      unchanged.push_back({{"name", tensor.name}, {"hash", tensor.hash}});
      continue;
    }
    changed.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes()},
                       {"hash", tensor.own_hash.empty() ? hash_text(0) : tensor.own_hash}});
  }
  base::Json header = {{"step", step}, {"base_version", version}};
  header["tensors"] = std::move(changed);
  header["unchanged"] = std::move(unchanged);
  return header.dump();
}

}  // namespace

// Sends what differs. false: the server's weights have been replaced since they were compared. Which of the
// tensors that differed the last time differ now is known only when they are written: those that do not are
// taken out again.
bool TensorsOut::send_changed(int64_t step) {
  int64_t version = 0;
  std::vector<Tensor> tensors = tensors_of_server(&version);
  compare(tensors);
  std::vector<Tensor*> written;
  for (Tensor& tensor : tensors) {
    tensor.sent = tensor.changed();
    if (tensor.sent) written.push_back(&tensor);
  }
  if (written.empty()) return true;
  const auto is_sent = [](const Tensor& tensor) { return tensor.sent; };
  const size_t head_bytes = head_of(header_of(tensors, step, version, is_sent), 0).size();
  size_t end = head_bytes;
  for (Tensor* const tensor : written) {
    tensor->at = end;
    end += form::aligned(tensor->bytes());
  }
  char* const message = memory_->begin(end);
  write(written, message);
  end = head_bytes;
  changing_.clear();
  for (const Tensor* const tensor : written) {
    if (!tensor->changed()) continue;
    const size_t bytes = form::aligned(tensor->bytes());
    if (tensor->at != end) std::memmove(message + end, message + tensor->at, bytes);
    end += bytes;
    changing_.insert(tensor->name);
  }
  if (changing_.empty()) return true;
  const auto has_changed = [](const Tensor& tensor) { return tensor.changed(); };
  const std::string head = head_of(header_of(tensors, step, version, has_changed), head_bytes);
  std::memcpy(message, head.data(), head.size());
  const Answer answer = memory_->send(end);
  // 404: another client has asked for shared memory since.
  if (answer.status == 409 || answer.status == 404) return false;
  if (answer.status != 200) exchange_.refuse(kList, answer);
  log_.info("server", "{} of {} tensors were sent, {} bytes", changing_.size(), tensors.size(), end);
  return true;
}

}  // namespace trl::run
