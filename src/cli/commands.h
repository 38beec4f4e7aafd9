// The commands. Each takes the words after its name and returns the exit code; it may throw Failure.
#pragma once
#include <string>
#include <vector>

namespace trl::cli {

using Words = std::vector<std::string>;

int sft(const Words& words);
int dpo(const Words& words);
int kto(const Words& words);
int reward(const Words& words);
int generate(const Words& words);
int convert(const Words& words);
int download(const Words& words);
int profile(const Words& words);
int tokenize(const Words& words);
int template_command(const Words& words);
int options(const Words& words);
int env(const Words& words);
int estimate(const Words& words);

}  // namespace trl::cli
