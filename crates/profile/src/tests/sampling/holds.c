// Takes memory and gives some of it back: what each function still holds at the end is known.
//
// It does what each line of its input says, and answers "@did".
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ONE __attribute__((noinline, noclone))

static size_t page;
static const char *self;
// What nobody gives back is known to the compiler as used.
static void *volatile kept;

// ---- address space

static void *map(size_t pages) {
    return mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
#define MAPS(name, pages) ONE void *name(void) { kept = map(pages); return kept; }

// 10 times 3 pages and a bit: 40 pages.
ONE void leaks_maps(void) {
    for (int i = 0; i < 10; i++)
        kept = mmap(NULL, 3 * page + 100, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

ONE void churns_maps(void) {
    for (int i = 0; i < 300; i++) munmap(map(16), 16 * page);
}

// 10 pages without the first and three in the middle: 6.
ONE void unmaps_parts(void) {
    char *at = map(10);
    munmap(at, page);
    munmap(at + 4 * page, 3 * page);
    kept = at;
}

MAPS(makes_to_grow, 4)   // 4
MAPS(makes_to_shrink, 10) // 3
MAPS(makes_to_move, 5)   // 5
MAPS(makes_a_place, 5)   // 0
MAPS(makes_to_replace, 8) // 5
MAPS(makes_to_fail, 2)   // 2
MAPS(makes_for_child, 9) // 9

ONE void grows(void *at) { kept = mremap(at, 4 * page, 10 * page, MREMAP_MAYMOVE); } // 6
ONE void shrinks(void *at) { kept = mremap(at, 10 * page, 3 * page, 0); } // 0
ONE void moves(void *at, void *to) {
    kept = mremap(at, 5 * page, 5 * page, MREMAP_MAYMOVE | MREMAP_FIXED, to);
} // 0
ONE void replaces(char *at) {
    kept = mmap(at + 2 * page, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
} // 3
ONE void calls_that_fail(char *at) {
    kept = mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kept = mmap(at + 1, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    kept = mmap(NULL, (size_t)1 << 60, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kept = mremap(at, page, (size_t)1 << 60, MREMAP_MAYMOVE);
    munmap(at + 1, page);
} // 0

// 4 threads, 5 times 2 pages each: 40.
ONE void *thread_maps(void *none) {
    for (int i = 0; i < 5; i++) kept = map(2);
    return none;
}
ONE void *maps_for_others(void *none) { (void)none; return map(7); } // 0
ONE void *unmaps_for_others(void *at) { munmap(at, 7 * page); return NULL; }

static void *in_thread(void *(*act)(void *), void *with) {
    pthread_t thread;
    void *answer;
    pthread_create(&thread, NULL, act, with);
    pthread_join(thread, &answer);
    return answer;
}

ONE void child_maps(void *of_parent) {
    for (int i = 0; i < 20; i++) kept = map(3);
    munmap(of_parent, 9 * page);
    kept = malloc(50 << 20);
}
static void forks(void) {
    void *at = makes_for_child();
    pid_t child = fork();
    if (child == 0) {
        child_maps(at);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

// 10 pages forward and 4 back: 6.
ONE void moves_the_heap(void) {
    kept = sbrk(10 * page);
    kept = sbrk(-4 * (intptr_t)page);
}

static void maps(void) {
    leaks_maps();
    churns_maps();
    unmaps_parts();
    grows(makes_to_grow());
    shrinks(makes_to_shrink());
    void *to_move = makes_to_move();
    moves(to_move, makes_a_place());
    replaces(makes_to_replace());
    calls_that_fail(makes_to_fail());
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, thread_maps, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    in_thread(unmaps_for_others, in_thread(maps_for_others, NULL));
    forks();
    moves_the_heap();
}

ONE void after_exec(void) { kept = map(7); }

// ---- the allocator

#define BLOCKS 15000
static void *blocks[BLOCKS];
#define ALL for (int i = 0; i < BLOCKS; i++)

ONE void malloc_leaks(void) { ALL kept = malloc(1000); }              // 1000
ONE void calloc_leaks(void) { ALL kept = calloc(2, 500); }            // 1000
ONE void realloc_leaks(void) { ALL kept = realloc(NULL, 1000); }      // 1000
ONE void aligned_leaks(void) { ALL kept = aligned_alloc(64, 1024); }  // 1024
ONE void memalign_leaks(void) {                                       // 1024
    void *at;
    ALL {
        if (posix_memalign(&at, 64, 1024) == 0) kept = at;
    }
}
ONE void churns_blocks(void) { ALL free(kept = malloc(1000)); }
ONE void takes_to_resize(void) { ALL blocks[i] = malloc(500); }
ONE void resizes(void) { ALL blocks[i] = realloc(blocks[i], 1000); }  // 1000
ONE void takes_to_fail(void) { ALL blocks[i] = malloc(1000); }        // 1000
ONE void resizes_in_vain(void) { ALL kept = realloc(blocks[i], (size_t)1 << 46); }
ONE void takes_to_drop(void) { ALL blocks[i] = malloc(1000); }
ONE void resizes_to_nothing(void) { ALL kept = realloc(blocks[i], 0); }
ONE void *takes_for_others(void *none) { ALL blocks[i] = malloc(1000); return none; }
ONE void *frees_for_others(void *none) { ALL free(blocks[i]); return none; }
ONE void first_owner(void) { ALL blocks[i] = malloc(1000); }
ONE void frees_of_first(void) { ALL free(blocks[i]); }
ONE void second_owner(void) { ALL blocks[i] = malloc(1000); }         // 1000
ONE void before_exec(void) { ALL kept = malloc(1000); }

static void allocates(void) {
    malloc_leaks();
    calloc_leaks();
    realloc_leaks();
    aligned_leaks();
    memalign_leaks();
    churns_blocks();
    takes_to_resize();
    resizes();
    takes_to_fail();
    resizes_in_vain();
    takes_to_drop();
    resizes_to_nothing();
    in_thread(takes_for_others, NULL);
    in_thread(frees_for_others, NULL);
    first_owner();
    frees_of_first();
    second_owner();
    forks();
}

// One block, 40 million bytes more each time.
ONE void regrows(void) {
    static void *block;
    static size_t size;
    for (int i = 0; i < 40; i++) kept = block = realloc(block, size += 1000000);
}

// The last that it does: the kernel's probes are met only here.
ONE void ends(void) {
    for (int i = 0; i < 20; i++) kept = malloc(3000000);
    if (write(1, "@did\n", 5) == 5) _exit(0);
}

// Allocates most of its time.
ONE uint64_t burns(void) {
    uint64_t sum = 0;
    for (int i = 0; i < 300; i++) {
        void *at = kept = malloc(100 + i);
        for (int j = 0; j < 200; j++) sum = sum * 31 + (uint64_t)j;
        free(at);
    }
    return sum;
}
static void churns_for_a_while(void) {
    static volatile uint64_t sum;
    for (int i = 0; i < 500; i++) sum += burns();
}

static void does(char *line) {
    line[strcspn(line, "\n")] = 0;
    if (!strcmp(line, "maps")) maps();
    else if (!strcmp(line, "allocates")) allocates();
    else if (!strcmp(line, "churns")) churns_for_a_while();
    else if (!strcmp(line, "regrows")) regrows();
    else if (!strcmp(line, "ends")) ends();
    else if (!strcmp(line, "exec")) {
        before_exec();
        fflush(stdout);
        execl(self, self, "again", NULL);
    } else exit(1);
}

int main(int count, char **words) {
    char line[100];
    self = words[0];
    page = (size_t)sysconf(_SC_PAGESIZE);
    if (count > 1) {
        after_exec();
        puts("@did");
    } else {
        puts("@ready");
    }
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        does(line);
        puts("@did");
        fflush(stdout);
    }
    return 0;
}
