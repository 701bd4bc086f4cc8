// A program that spends its time below known functions, with frame pointers and without.
#include <stdlib.h>
#include <string.h>
#include <time.h>
static volatile unsigned long sink;
static char text[4096];
__attribute__((noinline)) static int spin(int n) { for (int i = 0; i < n; i++) sink += i * 3; return n; }
__attribute__((noinline)) static int heavy(int n) { int x = spin(n * 3); sink += x; return x + 1; }
__attribute__((noinline)) static int light(int n) { int x = spin(n); sink += x; return x + 2; }
__attribute__((noinline)) static int search(int n) {
    int x = 0;
    for (int i = 0; i < n; i++) x += strlen(text);
    sink += x;
    return x + 3;
}
__attribute__((noinline)) static int recurse(int n) {
    int x = n ? recurse(n - 1) : heavy(20000);
    sink += x;
    return x + 4;
}
int main(void) {
    struct timespec begin, now;
    memset(text, 'a', sizeof text - 1);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        sink += heavy(20000) + light(20000) + recurse(5) + search(300);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < 700);
    return 0;
}
