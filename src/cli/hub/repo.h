// Names of repositories on the hub.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace trl::cli::hub {

struct Repo {
  enum class Type { model, dataset } type = Type::model;
  std::string id;                 // "Qwen/Qwen2.5-0.5B", "gpt2"
  std::string revision = "main";  // a branch, a tag or a commit
  bool by_download = false;       // for trl download: messages advise its flags, not the keys of a run

  const char* type_name() const { return type == Type::model ? "model" : "dataset"; }
  std::string folder() const;  // "models--Qwen--Qwen2.5-0.5B", its name in the cache
  std::string path() const;    // path of its pages and files, below the endpoint
  std::string shown() const;   // with the revision if that is not main
};

// Returns whether name can be the id of a repository: "name" or "owner/name" in letters, digits, '-', '_' and
// '.', without the ending of a file.
bool is_repo_id(std::string_view name);

// Splits "owner/name/folder/file.gguf", a file of a repository. False: not of that form.
bool split_file(const std::string& name, std::string& id, std::string& file);

// Returns whether text is a commit's full hash.
bool is_commit(std::string_view text);
// Returns whether text is exactly this many lower-case hexadecimal digits.
bool is_hex(std::string_view text, size_t digits);

// Returns whether path is a relative path that stays below its folder.
bool is_safe_path(std::string_view path);

// Percent-encodes for a URL; slashes stay if keep_slashes is true.
std::string quoted(std::string_view text, bool keep_slashes);

// Names of the hub: a repository, or a file of one, by its name or by the address of its page.
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
