#include "serve/served.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "support/abi.h"
#include "support/command.h"

namespace trl::bench {

Served::Served(const std::string& model, int threads, const Json& options, const std::string& dtype) {
  Json own = {{"runtime.threads", threads}};
  if (!dtype.empty()) own["dtype"] = dtype;
  trl_config* const opening = config_of(own);
  TRL_CHECK(trl_runtime_create(opening, &runtime_, &error));
  TRL_CHECK(trl_model_open(runtime_, model.c_str(), opening, &model_, &error));
  trl_config_destroy(opening);
  const char* text = nullptr;
  TRL_CHECK(trl_model_describe(model_, &text, &error));
  vocabulary_ = Json::parse(text).at("config").at("vocab_size");
  Json all = options;
  all["serve.port"] = 0;
  trl_config* const config = config_of(all);
  TRL_CHECK(trl_server_create(runtime_, config, &server_, &error));
  trl_config_destroy(config);
  TRL_CHECK(trl_server_add_model(server_, "model", model_, nullptr, nullptr, &error));
  TRL_CHECK(trl_server_start(server_, &error));
  TRL_CHECK(trl_server_describe(server_, &text, &error));
  port_ = Json::parse(text).at("port");
}

Served::~Served() {
  trl_server_destroy(server_);
  trl_model_destroy(model_);
  trl_runtime_destroy(runtime_);
}

std::vector<Prompt> random_prompts(int64_t count, int64_t tokens, int64_t vocabulary, int number) {
  std::mt19937 random(static_cast<uint32_t>(number));
  std::vector<Prompt> prompts(static_cast<size_t>(count));
  for (Prompt& ids : prompts)
    for (int64_t i = 0; i < tokens; ++i)
      ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary)));
  return prompts;
}

Json stream_bodies(const std::vector<Prompt>& prompts, int64_t new_tokens) {
  Json bodies = Json::array();
  for (const Prompt& ids : prompts)
    bodies.push_back({{"prompt", ids},
                      {"max_tokens", new_tokens},
                      {"temperature", 0},
                      {"ignore_eos", true},
                      {"stream", true},
                      {"stream_options", {{"include_usage", true}}}});
  return bodies;
}

Json run_streams(int port, const Json& bodies) {
  const Json work = {{"port", port}, {"path", "/v1/completions"}, {"bodies", bodies}};
  return run_json({"/proc/self/exe", kChildFlag, work.dump()});
}

int64_t running_in(trl_server* server) {
  const char* text = nullptr;
  TRL_CHECK(trl_server_describe(server, &text, &error));
  return Json::parse(text).at("models").at(0).at("running");
}

Json percentiles(const Json& seconds) {
  std::vector<double> all = seconds;
  if (all.empty()) return nullptr;
  std::sort(all.begin(), all.end());
  const auto at = [&](double share) {
    return 1000 * all[static_cast<size_t>(share * static_cast<double>(all.size() - 1))];
  };
  return {{"p50", at(0.5)}, {"p99", at(0.99)}};
}

}  // namespace trl::bench
