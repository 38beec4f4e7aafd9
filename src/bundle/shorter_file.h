// The file of a library with a smaller first segment.
#pragma once
#include <cstdint>
#include <string>

#include "bundle/library_tables.h"
#include "bundle/table_places.h"

namespace trl::bundle {

// Moves the rest of the file towards the first segment, by whole pages, with the lists of segments and
// sections that say so, and writes the file. Leaves it as it is if no page is gained. locals: the number of
// the first symbol that is not local.
void write_shorter(LibraryTables& tables, PlacedTables placed, uint32_t locals);

}  // namespace trl::bundle
