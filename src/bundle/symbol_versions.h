// The versions of names that a library defines, and that it asks of others.
#pragma once
#include "bundle/library_tables.h"
#include "bundle/symbol_table.h"

namespace trl::bundle {

inline constexpr const char* kLibC = "libc.so.6";

// Copies the tables of versions, with the new places of their names. packed: the library will have DT_RELR,
// which needs a version of glibc's.
void write_versions(LibraryTables& tables, Strings& strings, bool packed);

}  // namespace trl::bundle
