// A small server of a test that speaks as vLLM's does, as far as trainers ask it: completions of the tiny
// model by generators of this process, with the draws that requests name.
#pragma once
#include <httplib.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "engine/run.h"

namespace host {

class EngineServer {
 public:
  explicit EngineServer(const std::string& model_path) : model_(open_model(model_path)) {
    generator_ = generator_of(model_.get());
    http_.Get("/health", [](const httplib::Request&, httplib::Response&) {});
    http_.Get("/v1/models", [](const httplib::Request&, httplib::Response& reply) {
      reply.set_content(R"({"data": [{"id": "tiny"}]})", "application/json");
    });
    http_.Get("/server_info", [](const httplib::Request&, httplib::Response& reply) {
      reply.set_content(
          R"({"vllm_config": {"model_config": {"logprobs_mode": "processed_logprobs"}}, "libtrl": {}})",
          "application/json");
    });
    on("/v1/completions", &EngineServer::complete);
    on("/v1/load_lora_adapter", &EngineServer::load);
    on("/v1/unload_lora_adapter", &EngineServer::unload);
    port_ = http_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { http_.listen_after_bind(); });
    while (!http_.is_running()) std::this_thread::yield();
  }
  ~EngineServer() {
    http_.stop();
    thread_.join();
  }
  EngineServer(const EngineServer&) = delete;
  EngineServer& operator=(const EngineServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // The bodies of requests for completions, and the names of adapters as they came and went.
  std::vector<Json> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  std::vector<std::string> adapters() const {
    const std::lock_guard lock(mutex_);
    return adapters_;
  }
  // From this request for completions on, the first is 0, the status is 400.
  size_t refuses_from = SIZE_MAX;
  std::chrono::milliseconds load_takes{0};  // of an adapter, at least

 private:
  void on(const char* path, void (EngineServer::*answer)(const Json& body, httplib::Response& reply)) {
    http_.Post(path, [this, answer](const httplib::Request& request, httplib::Response& reply) {
      const std::lock_guard lock(mutex_);
      (this->*answer)(parse(request.body), reply);
    });
  }

  void load(const Json& body, httplib::Response& reply) {
    const std::string name = body.at("lora_name"), path = body.at("lora_path");
    std::this_thread::sleep_for(load_takes);
    Error error;
    if (trl_model_add_adapter(model_.get(), name.c_str(), path.c_str(), error) != TRL_OK) {
      reply.status = 400;
      reply.set_content(error.message(), "text/plain");
      return;
    }
    adapters_.push_back("+" + name);
  }

  void unload(const Json& body, httplib::Response& reply) {
    const std::string name = body.at("lora_name");
    Error error;
    if (trl_model_remove_adapter(model_.get(), name.c_str(), error) == TRL_OK)
      adapters_.push_back("-" + name);
    else
      reply.status = 404;
  }

  static Settings options_of(const Json& body, size_t prompt) {
    const int64_t n = body.at("n"), stream = body.at("trl_stream");
    Settings options = {
        {"generate.sampling_order", "vllm"},
        {"generate.logprobs", "0"},
        {"generate.ignore_eos", "true"},
        {"generate.num_return_sequences", std::to_string(n)},
        {"generate.seed", body.at("trl_seed").dump()},
        {"generate.stream", std::to_string(stream + static_cast<int64_t>(prompt) * n)},
        {"generate.max_new_tokens", body.at("max_tokens").dump()},
        {"generate.adapter", body.at("model") == "tiny" ? "none" : body.at("model").get<std::string>()}};
    for (const char* name :
         {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "stop_token_ids"})
      options.emplace_back(std::string("generate.") + name, body.at(name).dump());
    if (body.contains("structured_outputs"))
      options.emplace_back("generate.regex", body["structured_outputs"].at("regex").get<std::string>());
    return options;
  }

  void complete(const Json& body, httplib::Response& reply) {
    asked_.push_back(body);
    if (asked_.size() > refuses_from) {
      reply.status = 400;
      reply.set_content("no more", "text/plain");
      return;
    }
    Error error;
    std::vector<size_t> firsts;
    for (size_t i = 0; i < body.at("prompt").size(); ++i) {
      const auto ids = body["prompt"][i].get<std::vector<int32_t>>();
      EXPECT_EQ(trl_generator_add(generator_.get(), nullptr, 0, ids.data(), ids.size(),
                                  config(options_of(body, i)).get(), &firsts.emplace_back(), error),
                TRL_OK)
          << error.message();
    }
    trl_status status = TRL_OK;
    while (status == TRL_OK) status = trl_generator_step(generator_.get(), nullptr, nullptr, error);
    EXPECT_EQ(status, TRL_END) << error.message();
    Json choices = Json::array();
    for (const size_t first : firsts) take(first, body.at("n"), choices);
    reply.set_content(Json{{"choices", choices}}.dump(), "application/json");
  }

  void take(size_t first, size_t count, Json& choices) {
    Error error;
    trl_completions* made = nullptr;
    EXPECT_EQ(trl_generator_take(generator_.get(), first, count, &made, error), TRL_OK) << error.message();
    const Completions completions(made);
    for (size_t i = 0; i < count; ++i) {
      const Json one = parse(trl_completions_json(made, i, nullptr));
      choices.push_back({{"index", choices.size()},
                         {"token_ids", one.at("token_ids")},
                         {"logprobs", {{"token_logprobs", one.at("logprobs")}}},
                         {"finish_reason", "stop"}});
    }
  }

  Model model_;
  Generator generator_;
  mutable std::mutex mutex_;
  std::vector<Json> asked_;
  std::vector<std::string> adapters_;
  httplib::Server http_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace host
