/* Without a library of 32 bits, which is seldom there. */
void *malloc(unsigned size) { return (void *)size; }
void free(void *block) { (void)block; }

void _start(void) {
    static const char ready[] = "@ready\n";
    int answer = 4;
    __asm__ volatile("int $0x80" : "+a"(answer) : "b"(1), "c"(ready), "d"(7) : "memory");
    for (;;) {
        answer = 29;
        __asm__ volatile("int $0x80" : "+a"(answer));
    }
}
