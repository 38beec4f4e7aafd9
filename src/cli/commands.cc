#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "cli/handles.h"
#include "cli/nearest_flag.h"

namespace trl::cli {

namespace {

// Names commands of TRL that a later version may have; the empty text: none.
std::string to_come(const std::string& name) {
  constexpr std::string_view kTrainers[] = {"grpo", "rloo", "gkd", "online_dpo", "ppo", "distillation"};
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '-', '_');
  if (std::find(std::begin(kTrainers), std::end(kTrainers), plain) != std::end(kTrainers))
    return "this trainer is not in this version of libtrl yet; the trainers are sft, dpo, kto and reward";
  if (plain == "vllm_serve")
    return "this command is not in this version of libtrl yet; trl generate and trl chat run a model";
  return "";
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"sft", sft, "fine-tune a model on demonstrations (supervised fine-tuning)"},
      {"dpo", dpo, "train a model on preferences (direct preference optimisation)"},
      {"kto", kto, "train a model on answers that are good or bad (Kahneman-Tversky)"},
      {"reward", reward, "train a model to score answers, on preferences"},
      {"validate", validate, "print what a run would be, and what is wrong with it"},
      {"estimate", estimate, "tell what a run would take: memory, time, disk"},
      {"rows", rows, "print prepared rows as the trainer will see them"},
      {"profile", profile, "tell how long the rows are, and what max_length costs"},
      {"template", template_command, "print a row as training sees it, token by token"},
      {"tokenize", tokenize, "print the tokens of a text"},
      {"generate", generate, "complete prompts with a model"},
      {"chat", chat, "talk with a model on the terminal"},
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
  return kCommands;
}

const Command& command_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  if (const std::string why = to_come(name); !why.empty())
    throw Failure(kUsage, fmt::format("trl {}: {}", name, why));
  const std::string near = nearest_flag(name, names);
  throw Failure(kUsage,
                fmt::format("unknown command '{}'; {}", name,
                            near.empty() ? "trl help lists the commands" : "did you mean " + near + "?"));
}

}  // namespace trl::cli
