#include "run/server/adapter_out.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/hash.h"
#include "engine/error_capture.h"

namespace trl::run {

namespace {

constexpr const char* kLoad = "/v1/load_lora_adapter";
constexpr const char* kUnload = "/v1/unload_lora_adapter";

// Other runs have other names, on the server and in the folder.
std::string prefix_of(std::string_view owner) {
  base::Xxh3 hash;
  hash.update(owner);
  return fmt::format("trl-{:08x}-", static_cast<uint32_t>(hash.digest()));
}

}  // namespace

AdapterOut::AdapterOut(engine::Model& model, Exchange& exchange, std::string folder, std::string_view owner)
    : model_(model), exchange_(exchange), folder_(std::move(folder)), prefix_(prefix_of(owner)) {}

std::string AdapterOut::send(int64_t step) {
  if (sent_ && sent_->step == step) return sent_->name;
  base::make_directories(folder_);
  remove_left();
  Sent now = save(step);
  if (sent_) unload(*sent_);
  sent_ = std::move(now);
  return sent_->name;
}

// Returns the adapter as it is now, once the server has it.
AdapterOut::Sent AdapterOut::save(int64_t step) {
  const std::string name = prefix_ + std::to_string(step);
  const Sent now{step, name, base::join_path(folder_, name)};
  try {
    engine::ErrorCapture error;
    error.check(model_.save(now.path, engine::SaveKind::adapter, {}, error));
    load(now);
  } catch (...) {
    base::remove_tree(now.path);
    throw;
  }
  return now;
}

// Removes folders that a failed run has left, or that a lost server had.
void AdapterOut::remove_left() {
  for (const std::string& name : base::list_directory(folder_))
    if (name.starts_with(prefix_) && !(sent_ && name == sent_->name))
      unload({0, name, base::join_path(folder_, name)});
}

void AdapterOut::load(const Sent& adapter) {
  const base::Json body = {{"lora_name", adapter.name}, {"lora_path", adapter.path}};
  Answer answer = exchange_.post(kLoad, body, /*repeatable=*/true);
  if (answer.status == 400) {  // a run that was resumed, or a request that was repeated, has loaded its name
    exchange_.post(kUnload, {{"lora_name", adapter.name}}, true);
    answer = exchange_.post(kLoad, body, true);
  }
  if (answer.status == 404 || answer.status == 405)
    exchange_.fail_server(kLoad, fmt::format("status {}: the server takes no adapter, or does not see the "
                                             "folder {}: start it with --enable-lora and "
                                             "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, and give "
                                             "vllm_server_adapter_dir a folder that both see: {}",
                                             answer.status, adapter.path, Exchange::shown(answer)));
  if (answer.status != 200) exchange_.refuse(kLoad, answer);
}

// Takes any answer: a server drops the adapters that are not used some time anyway.
void AdapterOut::unload(const Sent& adapter) {
  exchange_.post(kUnload, {{"lora_name", adapter.name}}, true);
  base::remove_tree(adapter.path);
}

}  // namespace trl::run
