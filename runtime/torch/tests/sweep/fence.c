// An allocator for sweep.py: each tensor has a page without access rights after it (FENCE=end) or before it
// (FENCE=start), so that an access out of bounds ends the process. libtorch allocates tensors with posix_memalign.
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void *__libc_calloc(size_t, size_t);

#define SPACE (1ull << 41)
#define PAGE 4096ull
#define LIMIT (3ull << 30) // bytes that the process may allocate, like a container's limit

enum Side { UNKNOWN, NONE, END, START };

// Header on the first page of each block.
struct Head {
  size_t total, size;
};

static enum Side side = UNKNOWN;
static uint8_t *base, *next;
static size_t live;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void initialize(void) {
  if (side != UNKNOWN) {
    return;
  }
  const char *wanted = getenv("FENCE");
  side = wanted == NULL ? NONE : strcmp(wanted, "start") == 0 ? START : END;
  if (side != NONE) {
    base = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    next = base;
  }
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  pthread_mutex_lock(&lock);
  initialize();
  if (size > LIMIT || live + size > LIMIT) {
    pthread_mutex_unlock(&lock);
    return ENOMEM;
  }
  if (side == NONE || size == 0 || alignment < 64) {
    pthread_mutex_unlock(&lock);
    *out = __libc_memalign(alignment, size == 0 ? 1 : size);
    return *out == NULL ? ENOMEM : 0;
  }
  size_t data = (size + PAGE - 1) / PAGE * PAGE, before = side == START ? 2 * PAGE : PAGE;
  uint8_t *block = next;
  next += before + data + PAGE;
  live += size;
  pthread_mutex_unlock(&lock);
  if (mprotect(block, PAGE, PROT_READ | PROT_WRITE) != 0 ||
      mprotect(block + before, data, PROT_READ | PROT_WRITE) != 0) {
    return ENOMEM;
  }
  *(struct Head *)block = (struct Head){before + data + PAGE, size};
  memset(block + before, 0xA5, data < (1 << 20) ? data : 1 << 20);
  // The start is rounded down so that elements of eight bytes stay aligned.
  *out = block + before + (side == END ? (data - size) & ~7ull : 0);
  return 0;
}

static int is_ours(const void *pointer) {
  return base != NULL && (const uint8_t *)pointer >= base && (const uint8_t *)pointer < next;
}

// A tensor starts on the first page after its header.
static struct Head *head_of(void *pointer) {
  uint8_t *page = (uint8_t *)((uintptr_t)pointer & ~(PAGE - 1));
  return (struct Head *)(page - (side == START ? 2 * PAGE : PAGE));
}

void free(void *pointer) {
  if (pointer == NULL || !is_ours(pointer)) {
    __libc_free(pointer);
    return;
  }
  struct Head *head = head_of(pointer);
  size_t total = head->total;
  pthread_mutex_lock(&lock);
  live -= head->size;
  pthread_mutex_unlock(&lock);
  // The addresses are never reused, so that any later access to freed memory ends the process.
  madvise(head, total, MADV_DONTNEED);
  mprotect(head, total, PROT_NONE);
}

void *realloc(void *pointer, size_t size) {
  if (pointer == NULL || !is_ours(pointer)) {
    return __libc_realloc(pointer, size);
  }
  size_t before = head_of(pointer)->size;
  void *moved = __libc_malloc(size);
  if (moved != NULL) {
    memcpy(moved, pointer, before < size ? before : size);
    free(pointer);
  }
  return moved;
}

void *malloc(size_t size) {
  if (size > LIMIT) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  if (count != 0 && size > LIMIT / count) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_calloc(count, size);
}
