// A program with an allocator of its own, whose functions have the names of jemalloc in Rust.
//
// It does what each line of its input says, and answers "@did".
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ONE __attribute__((noinline, noclone))

static void *volatile kept;
static char *room;
static size_t used;

// Nothing is used again: who looks at addresses alone sees all of it as held.
ONE static void *take(size_t size) {
    if (!room) room = mmap(NULL, (size_t)1 << 36, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    used += size;
    return room + used - size;
}
ONE void *_rjem_malloc(size_t size) { return take(size); }
ONE void *_rjem_calloc(size_t count, size_t size) {
    size_t all;
    return __builtin_mul_overflow(count, size, &all) ? NULL : take(all);
}
ONE void *_rjem_mallocx(size_t size, int flags) { (void)flags; return take(size); }
ONE void *_rjem_rallocx(void *block, size_t size, int flags) { (void)block; (void)flags; return take(size); }
ONE void _rjem_free(void *block) { kept = block; }
ONE void _rjem_dallocx(void *block, int flags) { (void)flags; kept = block; }
ONE void _rjem_sdallocx(void *block, size_t size, int flags) { (void)size; (void)flags; kept = block; }

// Large enough to be followed each, in bytes of ten millions.
#define SIZE 10000000
ONE void *takes(void) { return kept = _rjem_malloc(SIZE); }
ONE void *takes_with_flags(void) { return kept = _rjem_mallocx(SIZE, 0); }
ONE void *resizes(void *block) { return kept = _rjem_rallocx(block, 2 * SIZE, 0); }
ONE void overflows(void) { kept = _rjem_calloc((size_t)1 << 33, ((size_t)1 << 31) + 1); }

static void acts(void) {
    for (int i = 0; i < 10; i++) _rjem_sdallocx(takes(), SIZE, 0);
    for (int i = 0; i < 10; i++) _rjem_dallocx(takes(), 0);
    for (int i = 0; i < 10; i++) _rjem_free(takes_with_flags());
    for (int i = 0; i < 10; i++) resizes(takes_with_flags());
    takes_with_flags();
    for (int i = 0; i < 10; i++) overflows();
}

int main(void) {
    char line[100];
    puts("@ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        acts();
        puts("@did");
        fflush(stdout);
    }
    return 0;
}
