/* What the programs know, and what they write. */

/* Bytes of a native stack that are copied at most, beside an Erlang one. Where a thread's frames need more, its stack
 * is cut short. */
#define LARGEST_NATIVE (24 << 10)
/* Bytes of an Erlang stack that are copied at most; a process that is no Erlang node has both for its native one. */
#define LARGEST_ERLANG (32 << 10)
/* Numbers that are drawn from, a power of two. */
#define DRAWS 1024
/* Words from an Erlang process's first known field on that hold all of them. */
#define PROCESS_WORDS 16

/* Set before the programs are loaded; the kernel takes them for constants, and leaves out what they rule out. */
#define SET_BY_LOADER(name) volatile const u64 name = 0
/* The process, by its number in its own namespace, and that namespace; 0 for the machine's own numbers. */
SET_BY_LOADER(PROCESS);
SET_BY_LOADER(NAMESPACE_DEVICE);
SET_BY_LOADER(NAMESPACE_INODE);
/* A tracepoint's field: where, and how many bytes it has; 0 where there is none. */
SET_BY_LOADER(FIELD_OFFSET);
SET_BY_LOADER(FIELD_SIZE);
/* Bytes are counted, rather than calls; and how many a sample stands for. */
SET_BY_LOADER(BY_BYTES);
SET_BY_LOADER(ONE_IN);
/* This kernel tells where it keeps return addresses that it has replaced. */
SET_BY_LOADER(FINDS_RETURNS);
/* Threads may run an Erlang process, which has its known fields from there on; and which words those are from the
 * first. */
SET_BY_LOADER(IS_ERLANG);
SET_BY_LOADER(FIRST_FIELD);
SET_BY_LOADER(STOP);
SET_BY_LOADER(FRAME_POINTER);
SET_BY_LOADER(HEAP);
SET_BY_LOADER(HEND);

/* Exponentially distributed with mean `ONE_IN`. */
volatile const u64 draws[DRAWS] = {0};

struct extent {
    u64 start, length;
};

/* What a program writes behind each sample: registers, and copies of stacks (record.rs). */
struct record {
    u64 ip, sp, bp, r12;
    u64 process, frame_pointer, stop;
    u64 native_length, erlang_start, erlang_length;
    u64 identifier, value;
    struct extent released, taken;
    struct {
        u64 address, word;
    } replaced[2];
    u8 bytes[LARGEST_NATIVE + LARGEST_ERLANG];
};
#define HEAD __builtin_offsetof(struct record, bytes)

/* What is known of a thread: the bounds of its stack, and where its scheduler writes down which Erlang process it
 * runs. */
struct thread {
    u64 low, top, current_process;
};

/* Of a thread and its process. */
struct numbers {
    u32 thread, process;
};

/* A processor's: calls or bytes until the next sample, and whether its record is being put together, as threads take
 * turns in the middle of it. */
struct state {
    s64 left;
    u64 busy;
};

/* What is known of a call that allocates, from its beginning to its return. */
struct call {
    /* That the new block is to have; 0 where it is not followed. */
    u64 bytes;
    /* The number of the block that it gives back, and its address. */
    u64 old_number, old_address;
    /* Where the new block's address is written to; 0 where it is the answer. */
    u64 behind;
};

/* By processor: where a record is put together. */
TABLE(scratch, ARRAY, u32, struct record);

/* By processor: the event whose ring takes the records. */
TABLE(outputs, PERF_EVENT_ARRAY, u32, u32);

/* By processor. */
TABLE(states, ARRAY, u32, struct state);

/* By a thread's number in its namespace. Those for which there is no room are copied by guessing. */
TABLE(threads, HASH, u32, struct thread);

/* Calls that allocate, by the stack pointer of the caller, which no two calls of a process have at once. */
TABLE(calls, HASH, u64, struct call);

/* The number of a block that is followed, by its address. */
TABLE(blocks, HASH, u64, u64);

/* The last number that a block got. */
u64 last_number;

/* Threads whose wake-ups are told, by their number on this machine; where there are more, the one that was not woken
 * for longest makes room. */
TABLE(asleep, LRU_HASH, u32, struct numbers);

/* What runs when they have entered. */
TABLE(next, PROGRAM_ARRAY, u32, u32);
