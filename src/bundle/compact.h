// Smaller tables for the dynamic linker: it needs only the names by which files of a bundle find each other.
#pragma once
#include <string>
#include <unordered_map>

namespace trl::bundle {

// How many files of a bundle define a name, and whether one of them, or a lookup as it runs, asks for it.
struct Uses {
  int defining = 0;
  bool asked = false;
};
using Names = std::unordered_map<std::string, Uses>;

// Makes the file of a library shorter; no address in it changes. A name that it takes from itself, and
// that no other file of the bundle defines, is bound to its own definition; names that nothing asks for go;
// places that only the library's base is added to are listed in a few bits each (DT_RELR, glibc 2.36).
// Without `names`, only the last is done. A file of another form than a linker gives shared libraries stays
// as it is: its first segment must hold only these tables.
void compact_library(const std::string& path, const Names* names);

}  // namespace trl::bundle
