// The files that a dataset's card, its README.md, lists: configs in the YAML between the two lines "---".
#pragma once
#include <string>
#include <vector>

namespace trl::cli::hub {

struct CardFiles {
  bool named = false;  // the card names files
  std::vector<std::string> patterns;
  bool matches(const std::string& path) const;  // globs: * within a name, ** across folders
};

// Returns the files of a configuration; an empty name means the default one. Throws UnfitError if the card
// has configurations and none of that name, or several and no default; id is for messages.
CardFiles files_of_card(const std::string& card, const std::string& config, const std::string& id);

}  // namespace trl::cli::hub
