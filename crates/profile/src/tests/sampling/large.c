/* Works now and then, below 16 functions with large frames. */
#include <stdio.h>
#include <time.h>

static volatile unsigned long sink;

static void spin(void)
{
    struct timespec t;
    long begun;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    begun = t.tv_nsec;
    do {
        for (int i = 0; i < 1000; i++)
            sink = sink * 3 + i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while ((t.tv_nsec - begun + 1000000000L) % 1000000000L < 5000000L);
}

__attribute__((noinline)) static int large(int depth)
{
    volatile char frame[1024];
    struct timespec rest = {0, 5000000L};

    frame[0] = 0;
    if (depth == 0)
        for (;;) {
            spin();
            nanosleep(&rest, NULL);
        }
    return large(depth - 1) + frame[0];
}

int main(void)
{
    puts("@ready");
    fflush(stdout);
    return large(15);
}
