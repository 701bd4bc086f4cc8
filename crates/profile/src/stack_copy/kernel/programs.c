/* Programs that copy stacks at the instant of a sample, and tell of wake-ups.
 *
 * They run in the interrupt that takes the sample, on the processor and thread that are sampled; at a tracepoint in
 * whatever thread comes by, and leave those of other processes alone. They copy bounded lengths, and write one record
 * into the ring of their processor, in place of the kernel's own. Only the record's own time, thread, processor and
 * kernel frames come from the kernel.
 *
 * A program's answer is the kernel's cue whether to write its own sample. */

#include "kernel.h"
#include "memory.h"
#include "copy.h"
#include "probes.h"

/* At an event of the thread's own. */
PROGRAM("perf_event", event)(struct bpf_perf_event_data *context)
{
    struct record *record = begin();
    if (!record)
        return PLAIN;
    record->value = context->sample_period;
    return output(context, record, copy_stacks(record), TAKEN);
}

/* At a tracepoint. Its answer holds for all who look at it, other profilers too. */
PROGRAM("tracepoint", tracepoint)(void *context)
{
    struct record *record = is_of_process() ? begin() : 0;
    if (!record)
        return PLAIN;
    u64 value = !FIELD_SIZE;
    read_kernel(&value, FIELD_SIZE, context + FIELD_OFFSET);
    record->value = value;
    return output(context, record, copy_stacks(record), PLAIN);
}

/* The end of a system call. */
struct sys_exit {
    u64 common, number;
    s64 answer;
};

enum system_call { MMAP = 1, MUNMAP, MREMAP, BRK, EXEC };

/* At the end of a call for address space: writes what memory it has taken and given back, if it has not failed. */
INLINE int transfer(struct sys_exit *context, enum system_call call)
{
    struct record *record = is_of_process() ? begin() : 0;
    if (!record)
        return PLAIN;
    struct pt_regs *registers = task_registers(current_task());
    u64 first = registers->di, second = registers->si;
    record->value = call;
    record->released = record->taken = (struct extent){0, 0};
    if (call == EXEC) {
        /* All addresses. */
        record->released.length = -1;
        return output(context, record, 0, PLAIN);
    }
    s64 answer = context->answer;
    if (answer < 0 && answer >= -4095)
        return PLAIN;
    if (call != MUNMAP)
        record->taken.start = answer;
    if (call == MMAP)
        record->taken.length = second;
    if (call == MREMAP)
        record->taken.length = registers->dx;
    if (call == MUNMAP || (call == MREMAP && !(registers->r10 & MREMAP_DONTUNMAP)))
        record->released = (struct extent){first, second};
    /* Nobody asks for the stack of what only gives back. */
    return output(context, record, call == MUNMAP ? 0 : copy_stacks(record), PLAIN);
}

#define CALL(name, call) \
    PROGRAM("tracepoint", name)(struct sys_exit *context) { return transfer(context, call); }
CALL(mmap, MMAP)
CALL(munmap, MUNMAP)
CALL(mremap, MREMAP)
CALL(brk, BRK)
CALL(exec, EXEC)

/* Where a thread leaves its processor: it enters the table of those whose wake-ups are told. */
PROGRAM("perf_event", leaving)(struct bpf_perf_event_data *context)
{
    struct numbers inside;
    numbers(&inside);
    u32 thread = pid_tgid();
    struct numbers *known = lookup(&asleep, &thread);
    if (known)
        /* The number may have been another thread's. */
        *known = inside;
    else
        update(&asleep, &thread, &inside, 0);
    tail_call(context, &next, 0);
    return PLAIN;
}

/* In whoever wakes a thread. */
PROGRAM("tracepoint", waking)(void *context)
{
    struct {
        u64 thread;
        struct numbers inside;
        char waker[16];
    } record = {0};
    read_kernel(&record.thread, sizeof(u32), context + FIELD_OFFSET);
    struct numbers *inside = lookup(&asleep, &record.thread);
    if (!inside)
        return PLAIN;
    record.inside = *inside;
    thread_name(record.waker, sizeof record.waker);
    event_output(context, &outputs, CURRENT_CPU, &record, sizeof record);
    return PLAIN;
}

/* The helpers that read memory are for programs under the GPL or a licence beside it. */
__attribute__((section("license"), used)) char licence[] = "Dual MIT/GPL";
