/* Files in memory, and the functions of a mount that read and write them. */
#include <stdlib.h>
#include <string.h>
#include <trl.h>

struct pack {
  struct file {
    char name[64], *bytes;
    size_t size;
  } files[64];
};

/* The file of this name, or the first free place; NULL if there is none. */
static struct file* pack_find(struct pack* pack, const char* name) {
  size_t i = 0;
  while (i < 64 && pack->files[i].bytes != NULL && strcmp(pack->files[i].name, name) != 0) ++i;
  return i < 64 ? &pack->files[i] : NULL;
}

static int64_t pack_read(void* pack, const char* name, uint64_t offset, void* buffer, size_t size) {
  const struct file* file = pack_find(pack, name);
  if (file == NULL || file->bytes == NULL) return TRL_E_NOT_FOUND;
  if (buffer == NULL) return (int64_t)file->size;
  if (offset > file->size) offset = file->size;
  if (size > file->size - offset) size = file->size - offset;
  memcpy(buffer, file->bytes + offset, size);
  return (int64_t)size;
}

/* This program saves each folder once, and ends if that fails. So TRL_WRITE_DONE has nothing to replace, and
   TRL_WRITE_DROPPED nothing to restore. */
static int32_t pack_write(void* pack, int32_t what, const char* name, uint64_t offset, const void* data,
                          size_t size) {
  struct file* file;
  char* bytes;
  if (what != TRL_WRITE_DATA) return 0;
  if ((file = pack_find(pack, name)) == NULL || strlen(name) >= sizeof file->name) return -1;
  if ((bytes = realloc(file->bytes, offset + size + 1)) == NULL) return -1;
  if (size > 0) memcpy(bytes + offset, data, size);
  strcpy(file->name, name);
  file->bytes = bytes;
  file->size = offset + size;
  return 0;
}

/* The bytes of all files whose names begin so. */
static size_t pack_size(const struct pack* pack, const char* begin) {
  size_t i, sum = 0;
  for (i = 0; i < 64; ++i)
    if (strncmp(pack->files[i].name, begin, strlen(begin)) == 0) sum += pack->files[i].size;
  return sum;
}

static void pack_free(struct pack* pack) {
  size_t i;
  for (i = 0; i < 64; ++i) free(pack->files[i].bytes);
}
