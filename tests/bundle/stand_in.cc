// A function of a library that the bundle leaves out throws, and says which one: stand_in TRLNONE FUNCTION.
#include <dlfcn.h>

#include <cstdio>
#include <exception>

int main(int count, char** arguments) {
  void* const library = count == 3 ? ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  const auto function =
      library == nullptr ? nullptr : reinterpret_cast<void (*)()>(::dlsym(library, arguments[2]));
  if (function == nullptr) return 2;
  try {
    function();
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 0;
  }
  return 1;
}
