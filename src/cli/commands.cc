#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "cli/handles.h"
#include "cli/keys.h"

namespace trl::cli {

namespace {

std::string replaced(std::string text, char from, char to) {
  std::ranges::replace(text, from, to);
  return text;
}

// Says why a command of TRL is not here; the empty text: it is none.
std::string to_come(const std::string& name) {
  const std::string plain = replaced(name, '-', '_');
  if (plain == "vllm_serve") return "this build has no server (TRL_SERVE)";
  for (const config::MethodRow& row : config::trainers())
    if (!row.built && row.name == plain)
      return "this trainer is not in this version of libtrl yet; the trainers are " + all_trainers("and");
  return "";
}

std::vector<std::string> trainer_names() {
  std::vector<std::string> all;
  for (const config::MethodRow* row : trainers()) all.emplace_back(row->name);
  return all;
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = [] {
    std::vector<Command> all;
    for (const config::MethodRow* row : trainers())
      all.push_back(
          {command_of(*row), [row](const Words& words) { return train(*row, words); }, row->summary});
    const Command others[] = {
        {"validate", validate, "print what a run would be, and what is wrong with it"},
        {"estimate", estimate, "tell what a run would take: memory, time, disk"},
        {"rows", rows, "print prepared rows as the trainer will see them"},
        {"profile", profile, "tell how long the rows are, and what max_length costs"},
        {"template", template_command, "print a row as training sees it, token by token"},
        {"tokenize", tokenize, "print the tokens of a text"},
        {"generate", generate, "complete prompts with a model"},
        {"chat", chat, "talk with a model on the terminal"},
#ifdef TRL_SERVE
        {"vllm-serve", vllm_serve, "answer requests to a model over HTTP"},
#endif
        {"eval", eval, "measure a model on rows: loss, perplexity, accuracy"},
        {"convert", convert, "turn a model directory into a GGUF file, or back"},
        {"download", download, "bring a model or a dataset of the hub to this machine"},
        {"options", options, "list the keys that --config and the flags take", false},
        {"env", env, "print versions and what this machine offers", false},
        {"completion", completion, "print the completion script of a shell", false},
        {"man", man, "print a manual page, for man -l -", false},
        {"help", help_command, "print this, or the help of a command", false},
        {"version", version, "print the version", false},
    };
    all.insert(all.end(), std::begin(others), std::end(others));
    return all;
  }();
  return kCommands;
}

const Command& command_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (replaced(name, '_', '-') == command.name) return command;
    names.emplace_back(command.name);
  }
  if (const std::string why = to_come(name); !why.empty())
    throw Failure(kUsage, fmt::format("trl {}: {}", name, why));
  const std::string near = nearest_flag(name, names);
  throw Failure(kUsage,
                fmt::format("unknown command '{}'; {}", name,
                            near.empty() ? "trl help lists the commands" : "did you mean " + near + "?"));
}

std::string command_of(const config::MethodRow& trainer) { return replaced(trainer.name, '_', '-'); }

const config::MethodRow& default_trainer() { return config::methods().front(); }

const std::vector<const config::MethodRow*>& trainers() {
  static const std::vector<const config::MethodRow*> kTrainers = [] {
    std::vector<const config::MethodRow*> rows;
    for (const config::MethodRow& row : config::methods()) rows.push_back(&row);
    std::sort(rows.begin() + 1, rows.end(),
              [](const auto* a, const auto* b) { return std::string_view(a->name) < b->name; });
    return rows;
  }();
  return kTrainers;
}

std::string listed(const std::vector<std::string>& names, const char* word) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? std::string(" ") + word + " " : ", ";
    text += names[i];
  }
  return text;
}

std::string all_trainers(const char* word) { return listed(trainer_names(), word); }

std::string other_trainers() {
  std::vector<std::string> others = trainer_names();
  others.erase(others.begin());
  return listed(others, "or");
}

}  // namespace trl::cli
