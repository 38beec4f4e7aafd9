// trl chat: a conversation with a model or an adapter on the terminal.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/open_runtime.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

constexpr const char* kHelp =
    "/reset       forget what was said\n"
    "/save FILE   add the conversation to FILE, as a row that trl sft reads\n"
    "/help        this list\n"
    "/exit        leave, as Ctrl-D does; Ctrl-C ends an answer\n";

std::atomic<bool> g_interrupted{false};

// Makes Ctrl-C end the answer and never the program. (While a line is typed it is a key: LineReader.)
class CtrlC {
 public:
  CtrlC() {
    struct sigaction action {};
    action.sa_handler = [](int) { g_interrupted = true; };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_);
  }
  ~CtrlC() { sigaction(SIGINT, &before_, nullptr); }
  CtrlC(const CtrlC&) = delete;
  CtrlC& operator=(const CtrlC&) = delete;

 private:
  struct sigaction before_ {};
};

int32_t stop_if_interrupted(void*, const char*, int64_t, int64_t) {
  return g_interrupted ? TRL_PROGRESS_STOP : 0;
}

struct Answer {
  std::string text;
  WordWrap shown;
};

int32_t on_token(void* any, size_t, int32_t, const char* text, size_t size, double) {
  auto& answer = *static_cast<Answer*>(any);
  const int width = isatty(STDOUT_FILENO) != 0 ? columns(STDOUT_FILENO) : 0;
  answer.text.append(text, size);
  return !g_interrupted && print(answer.shown.add({text, size}, width)) ? 0 : 1;
}

// Throws Failure for a completion that the library gave up.
void check_whole(const Completions& completions) {
  const char* const text = trl_completions_json(completions.get(), 0, nullptr);
  if (text == nullptr) return;
  const auto completion = nlohmann::ordered_json::parse(text);
  if (completion.contains("error")) throw Failure(kFailed, completion["error"].get<std::string>());
}

// Returns the tokenizer's path: an adapter may have its own, with tokens that were added for it.
std::string tokenizer_path(const Config& config) {
  const std::string adapter = get(config, "adapter_name_or_path");
  std::error_code error;
  for (const char* file : {"/tokenizer.json", "/tokenizer.model"})
    if (!adapter.empty() && std::filesystem::exists(adapter + file, error)) return adapter;
  return get(config, "model_name_or_path");
}

// The messages of a chat, for a chat template and as a row to train on.
class Conversation {
 public:
  explicit Conversation(std::string system) : system_(std::move(system)) { reset(); }

  // Removes all but the system prompt.
  void reset() {
    messages_ = nlohmann::ordered_json::array();
    if (!system_.empty()) add("system", system_);
  }
  void add(const char* role, const std::string& text) {
    messages_.push_back({{"role", role}, {"content", text}});
  }
  void take_back() { messages_.erase(messages_.size() - 1); }  // the last message

  // Returns JSON for trl_tokenizer_apply_chat_template, and for a prompt with generate.chat.
  std::string to_render() const { return text({{"messages", messages_}, {"add_generation_prompt", true}}); }
  std::string to_complete() const { return text(messages_); }

  // Adds the conversation to a JSONL file, as a row that `trl sft` reads. Throws Failure.
  void save(const std::string& path) const {
    std::ofstream file(path, std::ios::app);
    file << text({{"messages", messages_}}) << '\n';
    file.flush();
    if (!file) throw Failure(kFailed, fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
  }

 private:
  static std::string text(const nlohmann::ordered_json& json) {
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  const std::string system_;
  nlohmann::ordered_json messages_;
};

class Chat {
 public:
  Chat(const Config& config, std::string system) : config_(config), conversation_(std::move(system)) {
    Error error;
    const std::string path = get(config, "model_name_or_path");
    open_runtime(config, runtime_);
    check(trl_tokenizer_open(runtime_.get(), tokenizer_path(config).c_str(), config.get(), tokenizer_.out(),
                             error.out()),
          error);
    need_template();
    check(trl_model_open(runtime_.get(), path.c_str(), config.get(), model_.out(), error.out()), error);
    check(trl_generator_create(model_.get(), tokenizer_.get(), generator_.out(), error.out()), error);
    check(trl_runtime_set_progress(runtime_.get(), stop_if_interrupted, nullptr, nullptr, error.out()),
          error);
  }

  // Returns false at the end of the chat.
  bool take(const std::string& line) {
    if (line.empty()) return true;
    if (line == "/exit" || line == "/quit") return false;
    if (line == "/reset")
      conversation_.reset();
    else if (line == "/help")
      print(kHelp);
    else if (line == "/save" || line.starts_with("/save "))
      save(line.size() > 6 ? line.substr(6) : "");
    else if (line.starts_with("/"))
      print(fmt::format("{}: there is no such command\n{}", line.substr(0, line.find(' ')), kHelp));
    else
      answer(line);
    return true;
  }

 private:
  // Reports a missing template before anything is typed.
  void need_template() {
    conversation_.add("user", "Hello");
    const std::string request = conversation_.to_render();
    Error error;
    size_t size = 0;
    check(trl_tokenizer_apply_chat_template(tokenizer_.get(), request.data(), request.size(), nullptr, 0,
                                            &size, error.out()),
          error);
    conversation_.take_back();
  }

  void answer(const std::string& question) {
    conversation_.add("user", question);
    Error error;
    Answer given;
    g_interrupted = false;
    try {
      const std::string prompt = conversation_.to_complete();
      const char* const begin = prompt.data();
      const size_t size = prompt.size();
      Completions completions;
      const trl_status status = trl_generator_generate(generator_.get(), &begin, &size, 1, config_.get(),
                                                       on_token, &given, completions.out(), error.out());
      print(given.shown.rest());
      if (g_interrupted) usleep(20000);  // the terminal discards output while it handles Ctrl-C
      print(g_interrupted ? " [interrupted]\n" : "\n");
      if (status != TRL_E_CANCELLED || !g_interrupted) check(status, error);
      check_whole(completions);
    } catch (const Failure& failure) {  // only this answer failed
      conversation_.take_back();
      spdlog::error("{}", failure.what());
      return;
    }
    conversation_.add("assistant", given.text);
  }

  void save(const std::string& path) {
    if (path.empty()) return void(print("/save needs the name of a file\n"));
    try {
      conversation_.save(path);
      print(fmt::format("saved in {}\n", path));
    } catch (const Failure& failure) {
      spdlog::error("{}", failure.what());
    }
  }

  const Config& config_;
  Conversation conversation_;
  Runtime runtime_;
  Tokenizer tokenizer_;
  Model model_;
  Generator generator_;
};

// Refuses what an answer on the terminal has no place for.
void refuse_details(const Config& config) {
  if (get(config, "generate.keep") == "true")
    throw Failure(kUsage, "--keep: chat keeps what was said as it is; leave it out");
  if (get(config, "generate.take") == "new")
    throw Failure(kUsage, "--take: chat shows an answer as it comes; leave it out");
  if (get(config, "generate.usage") == "true")
    throw Failure(kUsage, "--usage: chat shows no counts; trl generate --json writes them");
  if (!generation_value(config, "logprobs").empty())
    throw Failure(kUsage, "--logprobs: chat shows none; trl generate --json writes them");
  if (!get(config, "generate.prompt_logprobs").empty())
    throw Failure(kUsage, "--prompt_logprobs: chat shows none; trl generate --json writes them");
}

}  // namespace

int chat(const Words& words) {
  Config config;
  const CommandLine line{"chat",
                         "Talk with a model or an adapter. Greedy unless --temperature is above 0. /help "
                         "lists what else can be typed; Ctrl-C ends an answer, Ctrl-D the chat.",
                         "",
                         {"generate", "runtime"},
                         model_keys(),
                         {}};
  if (parse(line, words, config)) return 0;
  if (get(config, "model_name_or_path").empty())
    throw Failure(kUsage, "--model_name_or_path is needed: a model directory, an adapter's, or a GGUF file");
  if (get(config, "generate.chat") == "true")
    throw Failure(kUsage, "--chat: chat always takes the chat template; leave it out");
  if (completions_of_each(config) != 1)
    throw Failure(kUsage, "--num_return_sequences: chat gives one answer; trl generate gives several");
  refuse_details(config);
  const std::string system = get(config, "generate.system");  // a message of the conversation here
  set(config, "generate.system", "null");
  set(config, "generate.chat", "true");
  Chat chat(config, system);
  LineReader reader("> ");
  const CtrlC ctrl_c;
  if (reader.on_terminal()) print("/help lists the commands.\n");
  for (std::string text;;) {
    const LineReader::End end = reader.read(text);
    if (end == LineReader::End::input) break;
    if (end == LineReader::End::dropped) {
      print("\n");
      continue;
    }
    if (!chat.take(text)) return 0;
  }
  if (reader.on_terminal()) print("\n");
  return 0;
}

}  // namespace trl::cli
