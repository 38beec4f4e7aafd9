// Lays out the tables of a library one after another, and writes their addresses into its dynamic section.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "bundle/bound_relocations.h"
#include "bundle/library_tables.h"

namespace trl::bundle {

struct PlacedTables {
  std::string image;                           // the first segment
  std::map<uint32_t, uint64_t> places;         // by the number of the section
  uint64_t packed_place = 0, packed_size = 0;  // DT_RELR
};

// Appends a table to a file's bytes, and returns its place.
uint64_t append_table(std::string& image, const std::string& table);

// Lays the tables out behind the rest of the first segment.
PlacedTables place_tables(LibraryTables& tables, const BoundRelocations& bound);

// Writes the dynamic section, in its place in the file.
void write_dynamic(LibraryTables& tables, const BoundRelocations& bound, const PlacedTables& placed);

}  // namespace trl::bundle
