#include "base/files/named_files.h"

#include "base/error.h"
#include "base/files/files.h"

namespace trl::base {

NamedFiles::NamedFiles(std::string name, std::map<std::string, std::string> files)
    : name_(std::move(name)),
      files_(std::make_shared<const std::map<std::string, std::string>>(std::move(files))) {}

std::string NamedFiles::place(std::string_view file) const { return join_path(name_, file); }

bool NamedFiles::has(std::string_view file) const {
  return in_memory() ? files_->contains(std::string(file)) : file_exists(place(file));
}

std::string NamedFiles::read(std::string_view file) const {
  if (!in_memory()) return read_file(place(file));
  const auto found = files_->find(std::string(file));
  if (found == files_->end())
    fail(Status::not_found, "{}: there is no such file in memory", Place::in(place(file)));
  return found->second;
}

std::vector<std::string> NamedFiles::names(std::string_view folder) const {
  if (!in_memory())
    return is_directory(place(folder)) ? list_directory(place(folder)) : std::vector<std::string>();
  const std::string begin = std::string(folder) + "/";
  std::vector<std::string> names;
  for (const auto& [name, bytes] : *files_)
    if (name.starts_with(begin)) names.push_back(name.substr(begin.size()));
  return names;
}

}  // namespace trl::base
