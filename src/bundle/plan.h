// Which libraries a bundle holds, and which of them each one needs there.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bundle/compact.h"
#include "bundle/elf.h"

namespace trl::bundle {

// A file that is bundled for its own sake, and the libraries that the dynamic linker loads for it, in its
// order.
struct Root {
  std::string path;
  std::string copy;                                         // path of the bundled file
  std::vector<std::pair<std::string, std::string>> loaded;  // name, path
};

struct Request {
  std::vector<Root> roots;
  std::set<std::string> system;  // libraries that every machine has: needed and not copied
  std::set<std::string>
      shared;  // copied under their own names: the host's or a plug-in's must be the same one
  std::set<std::string>
      absent;  // libraries that are left out, by name up to ".so", or "USER:" and such a name
  std::set<std::string> asked;  // names of functions that are looked up as the program runs
};

struct Entry {
  std::string path;
  std::set<std::string> takes;     // the libraries that define its undefined symbols
  std::set<std::string> unneeded;  // its needs that are removed
  std::vector<std::string> added;  // needs that it gets, since no other library brings them
};

// A symbol that a library of the bundle takes from one that is absent.
struct Missing {
  std::string library;
  Symbol symbol;
};

inline constexpr const char* kStandIn = "libnone.so";  // the library that defines missing symbols

struct Plan {
  std::map<std::string, Entry> roots;   // by path
  std::map<std::string, Entry> copied;  // by name
  std::map<std::string, Missing> missing;
  Names names;  // of the roots, the copies and the system's libraries

  // Returns the name of a library in the bundle if it is copied and not shared, or the stand-in: such as
  // k3ytorch_cpu.so.1.13 for libtorch_cpu.so.1.13, which is as long.
  std::string name_of(const std::string& library) const;
  std::set<std::string> shared;
  // In place of "lib", made of the bytes of all files: bundles of different builds have different names.
  std::string prefix;
};

// Throws std::runtime_error if a library takes a symbol that none defines, or needs one that is not loaded.
Plan make_plan(const Request& request);

}  // namespace trl::bundle
