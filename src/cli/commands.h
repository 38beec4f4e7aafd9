// The commands. Each takes the words after its name and returns the exit code; it may throw Failure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "config/method.h"

namespace trl::cli {

using Words = std::vector<std::string>;

int train(const config::MethodRow& trainer, const Words& words);
int generate(const Words& words);
int convert(const Words& words);
int download(const Words& words);
int profile(const Words& words);
int tokenize(const Words& words);
int template_command(const Words& words);
int options(const Words& words);
int env(const Words& words);
int estimate(const Words& words);
int eval(const Words& words);
int rows(const Words& words);
int validate(const Words& words);
int chat(const Words& words);
int vllm_serve(const Words& words);
int completion(const Words& words);
int man(const Words& words);
int help_command(const Words& words);
int version(const Words& words);

struct Command {
  std::string name;
  std::function<int(const Words&)> run;
  const char* summary;
  bool takes_flags = true;  // and gives them to parse()
};
const std::vector<Command>& commands();  // in the order of the overview
// Dashes and underscores are the same. Throws a Failure that names the nearest.
const Command& command_named(const std::string& name);
std::string command_of(const config::MethodRow& trainer);  // its name, with dashes

// Returns the trainers of this version, from the table of methods that the command compiles for itself, in
// the order of the overview: the default, then the others by name.
const std::vector<const config::MethodRow*>& trainers();
const config::MethodRow& default_trainer();

// Returns "a, b or c" with the word before the last one.
std::string listed(const std::vector<std::string>& names, const char* word);
std::string all_trainers(const char* word);  // "sft, dpo, kto or reward"
std::string other_trainers();                // those besides the default: "dpo, kto or reward"

}  // namespace trl::cli
