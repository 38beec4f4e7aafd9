// Shared libraries as files: their needs, definitions and undefined symbols, and changes to these.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace trl::bundle {

struct Symbol {
  std::string name;
  std::string version;  // empty: none
  bool defined = false;
  bool required = false;     // undefined and not weak
  bool chosen_only = false;  // defined for references that name its version only
  uint8_t type = 0;          // STT_FUNC and others
  uint64_t size = 0;
};

struct Library {
  std::string name;  // as others need it
  std::string path;
  std::vector<std::string> needs;            // DT_NEEDED
  std::vector<std::string> versioned_needs;  // libraries of the versions that it names
  std::vector<Symbol> symbols;               // global and weak ones
};

// Throws std::runtime_error, with the path, if the file is no 64-bit ELF library of this byte order.
Library read_library(const std::string& name, const std::string& path);

struct Changes {
  std::map<std::string, std::string> names;  // new names of libraries, as long as the old ones; its own, too
  std::set<std::string> removed;             // needs to remove
  std::vector<std::string> added;            // needs to add
  std::string stand_in;                      // asked for versions in place of the removed ones
  bool inherits_path = false;  // drops its own list of folders, and so is searched for by that of its root
};

// Changes a library in its place, without adding a byte: names become others of the same length, a new need
// takes the room of a removed one, every STB_GNU_UNIQUE symbol becomes an ordinary weak one (the dynamic
// linker binds the unique ones of a whole process to one definition), and its list of folders becomes one
// that the libraries below it inherit. Throws std::runtime_error if there is no room.
void change_library(const std::string& path, const Changes& changes);

}  // namespace trl::bundle
