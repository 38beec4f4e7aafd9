#include "run/server/server_writer.h"

#include "base/error.h"
#include "base/files/files.h"
#include "run/server/adapter_out.h"
#include "run/server/completion_answer.h"
#include "run/server/completion_request.h"
#include "run/server/http_module.h"
#include "run/server/shared_memory.h"
#include "run/server/tensors_out.h"

namespace trl::run {

using config::ServerWeights;

namespace {

std::string api_key(const std::string& path) {
  if (path.empty()) return {};
  std::string key = base::read_file(path);
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.empty() || key.find_first_of("\r\n") != std::string::npos)
    fail_key("vllm_server_api_key_file", "vllm_server_api_key_file: {}: give a file of one line, the key",
             Place{path});
  return key;
}

}  // namespace

ServerWriter::ServerWriter(Environment& environment, const config::RunOptions& options, engine::Model& model,
                           int64_t vocabulary)
    : log_(environment.log()),
      pool_(environment.pool()),
      model_(model),
      arguments_(*options.arguments.online.server),
      vocabulary_(vocabulary),
      exchange_(http_module(), arguments_.url, api_key(arguments_.api_key_file), log_) {
  if (arguments_.weights != ServerWeights::adapter) return;
  const std::string &folder = arguments_.adapter_dir, &out = options.arguments.output_dir;
  weights_ = std::make_unique<AdapterOut>(
      model, exchange_, folder.empty() ? base::join_path(out, "server_adapters") : folder, out);
}

void ServerWriter::set(const std::string& mode, Mode how) {
  check_request(how.request);
  modes_[mode] = std::move(how);
}

std::unique_ptr<WeightsOut> ServerWriter::tensors_out() {
  if (!server_->takes("http"))
    exchange_.fail_server(
        "/server_info",
        "the server takes no tensors: serve the model with trl vllm-serve of this library, or give "
        "use_peft: true, whose adapters a vLLM takes, or vllm_server_weights: none");
  std::unique_ptr<MessageMemory> memory;
  if (shares_memory(*server_, exchange_.url()))
    memory = std::make_unique<SharedMessage>(exchange_, log_);
  else
    memory = std::make_unique<BodyMemory>(exchange_);
  return std::make_unique<TensorsOut>(model_, exchange_, pool_, log_, std::move(memory), server_->model);
}

void ServerWriter::connect() {
  if (server_) return;
  server_ = find_server(exchange_, arguments_.timeout, log_);
  const bool old = server_->protocol == VllmServer::Protocol::old;
  try {
    if (old && arguments_.weights != ServerWeights::none)
      exchange_.fail_server(
          "/v1/models",
          "status 404: a server of TRL 1.10 or before takes no weights of this build: start vLLM's "
          "own, or give vllm_server_weights: none");
    if (arguments_.weights == ServerWeights::tensors) weights_ = tensors_out();
  } catch (const Error&) {
    server_.reset();
    throw;
  }
  if (arguments_.weights == ServerWeights::none) weights_ = std::make_unique<NoWeightsOut>(server_->model);
  weights_->forget();
  constexpr const char* kGets[] = {"its weights stay as they are", "it gets each new adapter",
                                   "it gets the tensors that change"};
  log_.info("server", "{} writes the completions{}; {}", exchange_.url(),
            old ? " by TRL's former protocol" : fmt::format(" with {}", server_->model),
            kGets[static_cast<size_t>(arguments_.weights)]);
}

template <class Body>
auto ServerWriter::ask(const Body& body) {
  connect();
  try {
    return body();
  } catch (const Error& error) {
    if (error.key() == kServerKey) server_.reset();
    throw;
  }
}

void ServerWriter::sync(int64_t step) {
  ask([&] { weights_->send(step); });
}

std::vector<engine::Completion> ServerWriter::write(const WantedCompletions& wanted) {
  const Mode& how = modes_.find(wanted.mode)->second;
  return ask([&] {
    const std::string model = weights_->send(wanted.step);  // unless sync() has
    const CompletionRequest request{
        .server = *server_,
        .options = how.request,
        .prompts = wanted.prompts,
        .groups = groups_of_rows(wanted.prompts, how.n, how.apart),
        .model = model,
        .first_stream = wanted.first_stream,
        .vocabulary = vocabulary_,
    };
    // Nothing is changed by it, so that it can be asked again.
    const base::Json answer = exchange_.post_json(request.path(), request.body(), /*repeatable=*/true);
    try {
      return read_completions(answer, request);
    } catch (const Error& error) {
      exchange_.fail_server(request.path(), error.message());
    }
  });
}

}  // namespace trl::run
