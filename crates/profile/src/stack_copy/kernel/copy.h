/* The record of a sample: registers, and copies of stacks. */

/* Answers: the kernel writes its sample, without copies, or not. */
enum { TAKEN, PLAIN };

/* The end of an Erlang process's identifier (identifier.rs). */
#define IDENTIFIER_MASK 15
#define IDENTIFIER_TAG 3
/* An Erlang stack is copied from this far below its top: the process may have called functions since it last wrote
 * the top down. */
#define BELOW_TOP 512
/* Bytes that are copied from the top of an Erlang stack whose bounds are not known. */
#define MOVED_STACK 4096
/* Words at the beginning of a native stack among which the functions that were called first have saved their callers'
 * registers. */
#define SAVED_WORDS 24

/* The numbers of the thread as the process's own namespace has them; those of the machine, and 0, for a thread that
 * is not in it. */
INLINE int numbers(struct numbers *of)
{
    if (NAMESPACE_INODE && !pid_tgid_in(NAMESPACE_DEVICE, NAMESPACE_INODE, of, sizeof *of))
        return 1;
    u64 on_machine = pid_tgid();
    *of = (struct numbers){on_machine, on_machine >> 32};
    return !NAMESPACE_INODE;
}

/* Whether the thread, whoever comes by, is one of the process's. */
INLINE int is_of_process(void)
{
    struct numbers own;
    return numbers(&own) && own.process == PROCESS;
}

/* Finds the record's memory and the registers of user space. */
CALLED struct record *begin(void)
{
    u32 cpu = processor();
    struct record *record = lookup(&scratch, &cpu);
    if (!record)
        return 0;
    struct task_struct *task = current_task();
    if (FINDS_RETURNS) {
        struct return_instance *last = task->utask->return_instances, *before = last->next;
        record->replaced[0].address = last->stack;
        record->replaced[0].word = last->orig_ret_vaddr;
        record->replaced[1].address = before->stack;
        record->replaced[1].word = before->orig_ret_vaddr;
    }
    struct pt_regs *registers = task_registers(task);
    record->ip = registers->ip;
    record->sp = registers->sp;
    record->bp = registers->bp;
    record->r12 = registers->r12;
    record->process = record->frame_pointer = record->stop = record->identifier = 0;
    record->native_length = record->erlang_start = record->erlang_length = 0;
    return record;
}

/* What may be at an address. */
enum kind { NOTHING, MOVING, WHOLE };

/* Memory for what is known of an Erlang process, before the copies need it. */
struct room {
    u64 words[PROCESS_WORDS], saved[SAVED_WORDS];
};

/* Whether an Erlang process is at an address, by its identifier and the bounds of its heap; its fields are in the
 * room then. What is certain to be one gives the record its identifier also while its heap moves. */
INLINE enum kind look(struct record *record, u64 address, int is_certain)
{
    u64 identifier, *words = ((struct room *)record->bytes)->words;
    if (!address || read_user(&identifier, sizeof identifier, address))
        return NOTHING;
    if ((identifier & IDENTIFIER_MASK) != IDENTIFIER_TAG)
        return NOTHING;
    if (is_certain)
        record->identifier = identifier;
    if (read_user(words, sizeof(u64) * PROCESS_WORDS, address + FIRST_FIELD))
        return NOTHING;
    u64 heap = words[HEAP], stop = words[STOP];
    if (!heap)
        return NOTHING;
    if (stop < heap || stop >= words[HEND])
        return is_certain ? MOVING : NOTHING;
    record->identifier = identifier;
    return WHOLE;
}

/* Finds the Erlang process that the thread runs, and its stack, and which of its two stacks the thread is on: it
 * answers where the Erlang one ends, 0 if there is none. */
INLINE u64 erlang_bounds(struct record *record, struct thread *thread)
{
    struct room *room = (struct room *)record->bytes;
    u64 process;
    if (!thread->current_process || read_user(&process, sizeof process, thread->current_process) || !process)
        return 0;
    enum kind kind = look(record, process, 1);
    if (kind == NOTHING) {
        /* A stand-in, as `ets:select` gives its match specifications. The process itself is where the first native
         * function has saved the register that compiled code keeps it in. */
        if (!thread->top || read_user(room->saved, sizeof room->saved, thread->top - sizeof room->saved))
            return 0;
        for (int at = SAVED_WORDS - 1; at >= 0 && kind == NOTHING; at--) {
            process = room->saved[at];
            kind = look(record, process, 0);
        }
        if (kind == NOTHING)
            return 0;
    }
    u64 stop = room->words[STOP], heap = room->words[HEAP], hend = room->words[HEND];
    if (!stop)
        return 0;
    record->process = process;
    record->frame_pointer = room->words[FRAME_POINTER];
    record->stop = record->erlang_start = stop;
    if (kind == MOVING)
        /* Collecting garbage, a process has its stack in the new heap already while it lets go of the old one, whose
         * bounds it still has. */
        return stop + MOVED_STACK;
    if (record->sp >= heap && record->sp < hend)
        record->erlang_start = record->sp;
    else
        record->erlang_start = stop - BELOW_TOP >= heap ? stop - BELOW_TOP : heap;
    return hend;
}

/* Copies the native stack as far as the thread uses it; answers its length. */
INLINE u64 copy_native(struct record *record, struct thread *thread, u64 largest)
{
    u64 sp = record->sp;
    if (thread && sp >= thread->low && sp < thread->top) {
        u64 length = thread->top - sp;
        if (length > largest)
            length = largest;
        /* Bounds that are too wide hold pages that nobody has touched yet. */
        if (!read_user(record->bytes, length, sp))
            return length;
    }
    /* Bytes that are tried of a stack whose bounds are not known yet. */
    const u32 guesses[] = {57344, 40960, 24576, 16384, 8192, 4096, 3072, 2048, 1024, 256};
#pragma unroll
    for (u32 at = 0; at < sizeof guesses / sizeof *guesses; at++)
        if (guesses[at] <= largest && !read_user(record->bytes, guesses[at], sp))
            return guesses[at];
    return 0;
}

/* Copies an Erlang stack behind the native copy, whose length is told; answers its length, or less than 0. */
INLINE s64 copy_erlang(struct record *record, u64 behind, u64 end)
{
    u64 length = end - record->erlang_start;
    if (length > LARGEST_ERLANG)
        length = LARGEST_ERLANG;
    return read_user(record->bytes + behind, length, record->erlang_start) ? -1 : (s64)length;
}

/* Copies both stacks; answers their length. */
CALLED u64 copy_stacks(struct record *record)
{
    struct numbers own;
    numbers(&own);
    struct thread *thread = lookup(&threads, &own.thread);
    if (!IS_ERLANG)
        return record->native_length = copy_native(record, thread, LARGEST_NATIVE + LARGEST_ERLANG);
    u64 end = thread ? erlang_bounds(record, thread) : 0, native = 0;
    s64 erlang = 0;
    /* On the Erlang stack there is no other to copy. */
    if (!end || record->erlang_start != record->sp)
        native = copy_native(record, thread, LARGEST_NATIVE);
    if (end) {
        erlang = copy_erlang(record, native, end);
        if (erlang < 0) {
            /* What lies below its top may be memory that nobody has touched yet. */
            record->erlang_start = record->stop;
            erlang = copy_erlang(record, native, end);
        }
        if (erlang < 0)
            erlang = 0;
    }
    record->native_length = native;
    record->erlang_length = erlang;
    return native + erlang;
}

/* Writes the record into the processor's ring. One that is full has counted the loss. */
INLINE int output(void *context, struct record *record, u64 copied, int answer)
{
    long done = event_output(context, &outputs, CURRENT_CPU, record, HEAD + copied);
    return done == -EOPNOTSUPP || done == -ENOENT ? PLAIN : answer;
}
