// Stands in for the runtime of Fortran, of which OpenBLAS's LAPACK takes one function.
#include <cstddef>

// Joins two texts into one of `size` characters, filled up with blanks.
extern "C" __attribute__((visibility("hidden"))) void _gfortran_concat_string(std::size_t size, char* to,
                                                                              std::size_t first_size,
                                                                              const char* first,
                                                                              std::size_t second_size,
                                                                              const char* second) {
  for (std::size_t i = 0; i < size; ++i)
    to[i] = i < first_size ? first[i] : i - first_size < second_size ? second[i - first_size] : ' ';
}
