/* Burns CPU time in known shares below callbacks of the C library: three parts to one. Exported functions have names also
 * in a stripped program; spin has none. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>

static volatile unsigned long sink;

/* How long a part is. */
static int part = 100000;

static __attribute__((noinline)) void spin(void) {
    for (int i = 0; i < part; i++)
        sink += i;
}

__attribute__((noinline)) int three_parts(const void *a, const void *b) {
    spin();
    spin();
    spin();
    return a < b;
}

__attribute__((noinline)) int one_part(const void *a, const void *b) {
    spin();
    return a < b;
}

/* Sorting two values takes one comparison. */
__attribute__((noinline)) void sorted(int (*compare)(const void *, const void *)) {
    int two[2] = {1, 2};
    qsort(two, 2, sizeof two[0], compare);
    sink += two[0];
}

__attribute__((noinline)) void work(void) {
    sorted(three_parts);
    sorted(one_part);
    /* Another length every time: a period of its own would come into step with the samples'. */
    static unsigned seed;
    seed = seed * 1664525 + 1013904223;
    part = 50000 + (seed >> 15);
}

int main(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    puts("@ready");
    fflush(stdout);
    for (;;)
        work();
}
