// Names of the hub: a repository, or a file of one, by its name or by the address of its page.
#pragma once
#include <optional>
#include <string>

#include "cli/hub/repo.h"

namespace trl::cli::hub {

struct Named {
  Repo repo;         // of the type that was asked for, unless an address names another
  std::string file;  // file of a model; empty: the repository
  bool has_type = false, has_revision = false;  // given by an address
};

// Parses "name", "owner/name", for a model "owner/name/file.gguf"; or the address of a page or a file
// (https://huggingface.co/owner/name/blob/main/file.gguf, https://huggingface.co/datasets/owner/name), at the
// endpoint or at the hub itself. Nothing: neither.
std::optional<Named> named(const std::string& text, Repo::Type type, const std::string& endpoint);

// Returns whether text is an address, of any host.
bool is_address(const std::string& text);

}  // namespace trl::cli::hub
