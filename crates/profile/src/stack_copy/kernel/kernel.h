/* What the kernel offers to programs inside it (linux/bpf.h, bpf_helpers.h of libbpf), as far as these need it:
 * without headers of the machine that compiles them, the same source gives the same bytes everywhere. */

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define INLINE static inline __attribute__((always_inline))
#define CALLED static __attribute__((noinline))
#define PROGRAM(kind, name) __attribute__((section(kind), used)) int bellows_##name
/* A map, as its loader is told of it; it says how many entries there are to be, where that is more. */
#define TABLE(name, kind, key_type, value_type) \
    struct {                                    \
        int(*type)[kind];                       \
        int(*max_entries)[1];                   \
        key_type *key;                          \
        value_type *value;                      \
    } name __attribute__((section(".maps"), used))

enum { HASH = 1, ARRAY = 2, PROGRAM_ARRAY = 3, PERF_EVENT_ARRAY = 4, LRU_HASH = 9 };

/* bpf-helpers(7), by their numbers. */
static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const delete)(void *map, const void *key) = (void *)3;
static u32 (*const random)(void) = (void *)7;
static u32 (*const processor)(void) = (void *)8;
static long (*const tail_call)(void *context, void *map, u32 at) = (void *)12;
static u64 (*const pid_tgid)(void) = (void *)14;
static long (*const thread_name)(void *to, u64 size) = (void *)16;
static long (*const event_output)(void *context, void *map, u64 flags, void *from, u64 size) = (void *)25;
static long (*const read_user)(void *to, u64 size, u64 from) = (void *)112;
static long (*const read_kernel)(void *to, u64 size, const void *from) = (void *)113;
static long (*const pid_tgid_in)(u64 device, u64 inode, void *to, u64 size) = (void *)120;
static struct task_struct *(*const current_task)(void) = (void *)158;
static struct pt_regs *(*const task_registers)(struct task_struct *task) = (void *)175;

#define CURRENT_CPU 0xffffffff
/* What it says where an event is no output of this processor. */
#define ENOENT 2
#define EOPNOTSUPP 95
#define MREMAP_DONTUNMAP 4

/* Registers of x86-64. */
struct pt_regs {
    u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct bpf_perf_event_data {
    struct pt_regs regs;
    u64 sample_period, addr;
};

/* Where the kernel keeps return addresses that it has replaced, so that it hears of a function's return. The loader
 * finds the places of these fields in this kernel. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct return_instance {
    u64 stack, orig_ret_vaddr;
    struct return_instance *next;
};
struct uprobe_task {
    struct return_instance *return_instances;
};
struct task_struct {
    struct uprobe_task *utask;
};
#pragma clang attribute pop
