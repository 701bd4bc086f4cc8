/* Threads that wait, each for something else, and are named after it. Roles are "woken", "contended" and "passing". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const long PERIOD = 20000000;

static void rest(long nanoseconds) {
    struct timespec length = {0, nanoseconds};
    nanosleep(&length, NULL);
}

static void burn(long nanoseconds) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < nanoseconds);
}

static void require(int fine, const char *what) {
    if (!fine) {
        perror(what);
        exit(1);
    }
}

struct start {
    const char *name;
    void (*step)(void);
};

static void *steps(void *argument) {
    struct start *start = argument;
    prctl(PR_SET_NAME, start->name);
    for (;;)
        start->step();
}

static void go(const char *name, void (*step)(void)) {
    struct start *start = malloc(sizeof *start);
    pthread_t thread;
    start->name = name;
    start->step = step;
    require(pthread_create(&thread, NULL, steps, start) == 0, "pthread_create");
}

static int inner_pipe[2], outer_pipe[2], sockets[2], event;
static char byte;

static void sleeps(void) { rest(PERIOD); }
static void reads_pipe(void) { require(read(inner_pipe[0], &byte, 1) == 1, "read"); }
static void reads_event(void) {
    eventfd_t count;
    require(eventfd_read(event, &count) == 0, "eventfd_read");
}
/* Two at once, and sleeps itself. */
static void writes(void) {
    rest(PERIOD);
    require(write(inner_pipe[1], &byte, 1) == 1, "write");
    require(eventfd_write(event, 1) == 0, "eventfd_write");
}
static void reads_outer_pipe(void) { require(read(outer_pipe[0], &byte, 1) == 1, "read"); }
static void receives(void) { require(recv(sockets[0], &byte, 1, 0) == 1, "recv"); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int rung;

static void waits_for_condition(void) {
    pthread_mutex_lock(&mutex);
    while (!rung)
        pthread_cond_wait(&condition, &mutex);
    rung = 0;
    pthread_mutex_unlock(&mutex);
}
static void rings(void) {
    rest(PERIOD);
    pthread_mutex_lock(&mutex);
    rung = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}

static const char *folder;
static void synchronises(void) {
    static int file = -1;
    if (file < 0)
        require((file = open(folder, O_TMPFILE | O_RDWR, 0600)) >= 0, "open");
    for (int i = 0; i < 8; i++)
        require(pwrite(file, folder, 1, lseek(file, 4096, SEEK_END)) == 1, "pwrite");
    fsync(file);
    rest(1000000);
}

/* Told to the other process before that begins. */
static volatile pid_t *shared;
static void handles(int number) { (void)number; }
static void waits_for_signal(void) {
    sigset_t none;
    sigemptyset(&none);
    shared[0] = syscall(SYS_gettid);
    sigsuspend(&none);
}

static void *ends(void *argument) {
    prctl(PR_SET_NAME, "short");
    rest(5000000);
    return argument;
}
/* Threads one after the other, each of which ends. */
static void starts(void) {
    pthread_t thread;
    require(pthread_create(&thread, NULL, ends, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
}

static void connect_sockets(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    require(bind(listener, (void *)&address, length) == 0 && listen(listener, 1) == 0, "listen");
    getsockname(listener, (void *)&address, &length);
    sockets[1] = socket(AF_INET, SOCK_STREAM, 0);
    require(connect(sockets[1], (void *)&address, length) == 0, "connect");
    sockets[0] = accept(listener, NULL, NULL);
}

/* Another process, which wakes three threads in turn. */
static void outsider(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "outsider");
    for (;;) {
        rest(PERIOD / 2);
        require(write(outer_pipe[1], &byte, 1) == 1, "write");
        rest(PERIOD / 4);
        require(send(sockets[1], &byte, 1, 0) == 1, "send");
        rest(PERIOD / 4);
        if (shared[0])
            syscall(SYS_tgkill, parent, shared[0], SIGUSR1);
    }
}

static void woken(void) {
    pid_t own = getpid();
    signal(SIGUSR1, handles);
    require(pipe(inner_pipe) == 0 && pipe(outer_pipe) == 0, "pipe");
    event = eventfd(0, 0);
    connect_sockets();
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fork() == 0)
        outsider(own);
    go("sleeper", sleeps);
    go("pipe", reads_pipe);
    go("event", reads_event);
    go("writer", writes);
    go("outer_pipe", reads_outer_pipe);
    go("socket", receives);
    go("condition", waits_for_condition);
    go("ringer", rings);
    go("disk", synchronises);
    go("signalled", waits_for_signal);
    go("starter", starts);
}

static void on_first_processor(int policy) {
    struct sched_param none = {0};
    cpu_set_t set;
    require(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity");
    int first = 0;
    while (!CPU_ISSET(first, &set))
        first++;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    require(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
    require(sched_setscheduler(0, policy, &none) == 0, "sched_setscheduler");
}

/* Runs for 40 ms, and sleeps for 10 ms. */
static void hogs(void) {
    on_first_processor(SCHED_OTHER);
    burn(40000000);
    rest(10000000);
}
/* Sleeps for 1 ms, and gets its processor when nobody else wants it. */
static void comes_last(void) {
    on_first_processor(SCHED_IDLE);
    rest(1000000);
}
static void spins(void) { burn(1000000000); }

static void contended(void) {
    go("hog", hogs);
    go("last", comes_last);
    for (long i = 0; i < 3 * sysconf(_SC_NPROCESSORS_ONLN); i++)
        go("spinner", spins);
}

static void *passes(void *nothing) {
    (void)nothing;
    rest(1200000);
    return NULL;
}

/* Starts 10,000 threads a second that live for a little more than 1 ms. */
static void passing(void) {
    pthread_attr_t detached;
    require(pthread_attr_init(&detached) == 0, "pthread_attr_init");
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, 65536);
    for (;;) {
        pthread_t thread;
        (void)!pthread_create(&thread, &detached, passes, NULL);
        rest(100000);
    }
}

int main(int count, char **arguments) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    require(count == 3, "waits ROLE FOLDER");
    folder = arguments[2];
    if (strcmp(arguments[1], "woken") == 0)
        woken();
    else if (strcmp(arguments[1], "contended") == 0)
        contended();
    else
        go("passer", passing);
    rest(100000000);
    puts("@ready");
    fflush(stdout);
    for (;;)
        pause();
}
