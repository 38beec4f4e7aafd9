// trl vllm-serve: answers requests to a model over HTTP, with the flags of TRL's command and of vllm serve.
#include <trl/serve.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/progress.h"

namespace trl::cli {

namespace {

using Server = Handle<trl_server, trl_server_destroy>;

// Flags of TRL and vLLM that have another name here.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"model", "model_name_or_path"},
    {"revision", "model_revision"},
    {"served_model_name", "model_names"},
    {"enable_prefix_caching", "prefix_cache"},
    {"no_enable_prefix_caching", "no_prefix_cache"},
    {"speculative_config", "generate.speculative_config"}};

// Flags that say what is so anyway: the values that are taken, and what others get.
struct Fixed {
  std::string_view name, taken, why;
};
constexpr std::string_view kOneProcess = "one process computes on all threads: see --runtime.threads";
constexpr Fixed kFixed[] = {
    {"tensor_parallel_size", "1", kOneProcess},
    {"data_parallel_size", "1", kOneProcess},
    {"pipeline_parallel_size", "1", kOneProcess},
    {"distributed_executor_backend", "", kOneProcess},
    {"enforce_eager", "true false", "give true or false: there are no graphs of kernels either way"},
    {"trust_remote_code", "true false", "give true or false: code of a model is never run"},
    {"vllm_model_impl", "vllm auto", "models are this library's own"},
    {"logprobs_mode", "processed_logprobs", "log-probabilities are those that tokens are drawn from"},
    {"weight_transfer_config", "", "this build has no NCCL: weights come as adapters and over HTTP"},
    {"ssl_keyfile", "", "this build has no TLS: put a proxy before it"},
    {"ssl_certfile", "", "this build has no TLS: put a proxy before it"},
    {"ssl_ca_certs", "", "this build has no TLS: put a proxy before it"}};

// Values that have another name here.
struct Renamed {
  std::string_view flag, value, own;
};
constexpr Renamed kValues[] = {
    {"dtype", "float", "float32"}, {"dtype", "half", "float16"}, {"log_level", "trace", "detail"}};

std::string in_small_letters(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

std::string plain(std::string_view flag) {
  std::string name(flag.substr(2));
  std::ranges::replace(name, '-', '_');
  return name;
}

bool is_flag(std::string_view word) { return word.starts_with("--") && word.size() > 2; }

std::string percent_of(const std::string& share) {
  char* end = nullptr;
  const double value = std::strtod(share.c_str(), &end);
  if (share.empty() || *end != '\0' || !(value > 0 && value <= 1))
    throw Failure(kUsage,
                  fmt::format("--gpu_memory_utilization: {} is not accepted; give a number above 0, at "
                              "most 1",
                              share));
  return fmt::format("{}%", value * 100);
}

// Puts flags into the words of this command. Throws Failure for values that are refused.
Words own_words(const Words& words) {
  Words out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!is_flag(words[i])) {
      out.push_back(words[i]);
      continue;
    }
    const size_t equals = words[i].find('=');
    const std::string name = plain(std::string_view(words[i]).substr(0, equals));
    const auto value = [&]() -> std::string {
      if (equals != std::string::npos) return words[i].substr(equals + 1);
      return i + 1 < words.size() && !is_flag(words[i + 1]) ? words[++i] : "";
    };
    const bool is_empty = equals != std::string::npos ? equals + 1 == words[i].size()
                                                      : i + 1 < words.size() && words[i + 1].empty();
    if (name == "api_key" && is_empty)  // as from a variable that is not set: else anyone could come in
      throw Failure(kUsage, "--api_key: it is empty; give a key, or leave the flag out for none");
    const auto renamed = std::ranges::find(kRenamed, name, [](const auto& pair) { return pair.first; });
    const auto fixed = std::ranges::find(kFixed, name, &Fixed::name);
    if (renamed != std::end(kRenamed)) {
      out.push_back("--" + std::string(renamed->second) +
                    (equals == std::string::npos ? "" : words[i].substr(equals)));
    } else if (name == "gpu_memory_utilization") {
      out.push_back("--kv_cache_memory=" + percent_of(value()));
    } else if (fixed != std::end(kFixed)) {
      std::string given = value();
      if (given.empty() && fixed->taken == "true false") given = "true";
      const std::string all = fmt::format(" {} ", fixed->taken);
      if (given.empty() || all.find(fmt::format(" {} ", in_small_letters(given))) == std::string::npos)
        throw Failure(kUsage, fmt::format("--{}: {} is not accepted: {}", name, given.empty() ? "it" : given,
                                          fixed->why));
    } else if (std::ranges::find(kValues, name, &Renamed::flag) != std::end(kValues)) {
      const std::string given = value();
      const auto own = std::ranges::find_if(
          kValues, [&](const Renamed& one) { return one.flag == name && one.value == given; });
      out.push_back(fmt::format("--{}={}", name, own == std::end(kValues) ? given : own->own));
    } else {
      out.push_back(words[i]);
    }
  }
  return out;
}

// Returns a chat template that is given as a text, or as the path of its file.
std::string chat_template_of(const std::string& given) {
  std::error_code none;
  if (std::filesystem::exists(given, none)) {
    std::ifstream file(given, std::ios::binary);
    if (!file || std::filesystem::is_directory(given, none))
      throw Failure(kFailed,
                    fmt::format("--chat_template: {} cannot be read; give a template's file or text", given));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  if (given.find_first_of("{}\n") == given.npos)
    throw Failure(
        kUsage,
        fmt::format("--chat_template: there is no file {}, and a template's text has {{, }} or a line "
                    "break; give a template's file or its text",
                    given));
  return given;
}

}  // namespace

int vllm_serve(const Words& words) {
  Config config;
  Error error;
  CommandLine line{
      "vllm-serve",
      "Answer requests to a model over HTTP, by the protocols of OpenAI, vLLM and TRL. It listens on "
      "loopback "
      "unless --host says otherwise. SIGTERM and Ctrl-C let requests end first. Flags of TRL's command and "
      "of "
      "vllm serve are taken: --model, --revision, --served_model_name, --enable_prefix_caching, "
      "--speculative_config, --gpu_memory_utilization, and --chat_template with a template's file or text.",
      "",
      {"serve", "generate", "runtime"},
      model_keys(),
      {}};
  // TRL's command starts vllm serve with max_logprobs -1, because its trainers ask for many tokens'
  // log-probabilities.
  line.defaults = {{"dtype", "auto"}, {"serve.max_logprobs", "-1"}};
  if (parse(line, own_words(words), config)) return 0;
  const std::string path = get(config, "model_name_or_path");
  if (path.empty())
    throw Failure(kUsage, "--model is needed: a model directory, an adapter's or a GGUF file");
  if (const std::string given = get(config, "chat_template"); !given.empty())
    set(config, "chat_template", chat_template_of(given));

  Runtime runtime;
  open_runtime(config, runtime);
  Interrupt interrupt("stopped");
  Model model;
  check(trl_model_open(runtime.get(), path.c_str(), config.get(), model.out(), error.out()), error);
  clear_line();
  Server server;
  check(trl_server_create(runtime.get(), config.get(), server.out(), error.out()), error);
  check(trl_server_add_model(server.get(), path.c_str(), model.get(), nullptr, nullptr, error.out()), error);
  check(trl_server_start(server.get(), error.out()), error);
  interrupt.watch([](void* running) { trl_server_cancel(static_cast<trl_server*>(running)); }, server.get());
  check(trl_server_wait(server.get(), -1, error.out()), error);
  interrupt.watch(nullptr, nullptr);
  return 0;
}

}  // namespace trl::cli
