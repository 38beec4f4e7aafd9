#include "run/server/group_out.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/threads/thread_pool.h"
#include "run/server/own_tensors.h"

namespace trl::run {

namespace {

constexpr const char *kInit = "/init_weight_transfer_engine", *kStart = "/start_weight_update",
                     *kUpdate = "/update_weights", *kFinish = "/finish_weight_update",
                     *kReset = "/reset_prefix_cache", *kWorldSize = "/get_world_size";
constexpr const char* kDtype = "bfloat16";

}  // namespace

GroupOut::GroupOut(engine::Model& model, Exchange& exchange, Communicator& communicator,
                   Communicator::Group group, std::string served, double seconds)
    : model_(model),
      exchange_(exchange),
      communicator_(communicator),
      group_(std::move(group)),
      served_(std::move(served)),
      seconds_(seconds) {}

void GroupOut::forget() {
  communicator_.close();
  joined_ = false;
  sent_.reset();
}

std::string GroupOut::send(int64_t step) {
  if (sent_ == step) return served_;
  try {
    if (!joined_) join();
    send_all();
  } catch (...) {
    forget();
    throw;
  }
  sent_ = step;
  return served_;
}

// Asks the server for its part of something while this process does its own. If one of them fails, the other
// is ended, and the error is that of the first.
void GroupOut::together(std::string_view path, const base::Json& body, const std::function<void()>& own) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_);
  std::atomic<bool> over{false};
  std::exception_ptr failed, of_server;
  std::thread asking = base::quiet_thread("trl-server", [&] {
    try {
      const Answer answer =
          exchange_.post_while(path, body, [&] { return !over && std::chrono::steady_clock::now() < end; });
      if (answer.status != 200) exchange_.refuse(path, answer);
    } catch (...) {
      of_server = std::current_exception();
      if (!over.exchange(true)) communicator_.close();
    }
  });
  bool first = false;
  try {
    own();
  } catch (...) {
    failed = std::current_exception();
    first = !over.exchange(true);
  }
  asking.join();
  if (of_server != nullptr && !first) std::rethrow_exception(of_server);
  if (failed != nullptr) std::rethrow_exception(failed);
}

void GroupOut::post(std::string_view path, const base::Json& body) {
  together(path, body, [] {});
}

void GroupOut::join() {
  const base::Json size = exchange_.get_json(kWorldSize);
  const base::Json others = size.is_object() ? size.value("world_size", base::Json()) : base::Json();
  if (!others.is_number_integer() || others < 1)
    exchange_.fail_server(kWorldSize, "the answer has no world_size");
  group_.size = others.get<int64_t>() + 1;
  together(kInit,
           {{"init_info",
             {{"master_address", group_.address},
              {"master_port", group_.port},
              {"rank_offset", 1},
              {"world_size", group_.size}}}},
           [&] { communicator_.join(group_, seconds_); });
  joined_ = true;
}

void GroupOut::send_all() {
  const std::vector<OwnTensor> tensors = own_tensors(model_);
  base::Json names = base::Json::array(), dtypes = base::Json::array(), shapes = base::Json::array();
  for (const OwnTensor& tensor : tensors) {
    names.push_back(tensor.name);
    dtypes.push_back(kDtype);
    shapes.push_back(tensor.shape);
  }
  base::Json info = base::Json::object();
  info["names"] = std::move(names);
  info["dtype_names"] = std::move(dtypes);
  info["shapes"] = std::move(shapes);
  post(kStart, base::Json::object());
  together(kUpdate, {{"update_info", std::move(info)}}, [&] {
    for (const OwnTensor& tensor : tensors)
      communicator_.broadcast(numbers_as(model_, tensor.name, kDtype).bytes, seconds_);
  });
  post(kFinish, base::Json::object());
  post(kReset, base::Json::object());
}

}  // namespace trl::run
