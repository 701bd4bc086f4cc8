/* Programs at functions of an allocator: which of their calls become samples, and blocks that are followed until they
 * are given back.
 *
 * Where a function that allocates begins, chance decides by the bytes that it is asked for; where it returns, the
 * block has its address, and gets a number. Of those, `free` finds the number by the address. The stack is copied at
 * the return: there the caller has its return address back, which the kernel replaces while the function runs.
 *
 * A block that is given back loses its number before the function begins, and gets one after it has returned, so that
 * nobody else can have its address meanwhile. */

/* Where a function's arguments say how many bytes are meant (allocators.rs). */
enum size { FIRST, SECOND, THIRD, PRODUCT, RESIZE };
/* Nobody has that much memory: the call will fail. */
#define MOST_BYTES (1ull << 47)

INLINE struct state *own_state(void)
{
    u32 cpu = processor();
    return lookup(&states, &cpu);
}

/* The bytes that a function is asked for, or 1; less than 0 where the call is not counted. */
INLINE s64 requested(struct pt_regs *context, enum size size, int by_bytes)
{
    u64 first = context->di, second = context->si, bytes;
    /* It hands on to `malloc`. */
    if (size == RESIZE && !first)
        return -1;
    if (!by_bytes)
        return 1;
    if (size == FIRST)
        bytes = first;
    else if (size == THIRD)
        bytes = context->dx;
    else
        bytes = second;
    if (size == PRODUCT) {
        bytes = first * second;
        /* Or clang multiplies in 128 bits, which the machine lacks. */
        asm volatile("" : "+r"(bytes));
        /* A product that is too large for a register fails, whatever is left of it. */
        if (second && bytes / second != first)
            return -1;
    }
    return bytes < MOST_BYTES ? (s64)bytes : -1;
}

/* Takes calls or bytes off those until the next sample; answers what the sample stands for once they are used up,
 * else 0. */
INLINE u64 draw(struct state *state, u64 asked)
{
    s64 left = __sync_fetch_and_add(&state->left, -asked);
    if (left > (s64)asked)
        return 0;
    state->left = draws[random() & (DRAWS - 1)];
    /* What was asked for beyond, and the mean. */
    return ONE_IN <= 1 ? 1 : asked - left + ONE_IN;
}

/* Whether nobody else is in the middle of the processor's record. */
INLINE int claim(struct state *state)
{
    return !__sync_lock_test_and_set(&state->busy, 1);
}

/* Copies stacks, and gives the processor's record to the next that comes by. */
INLINE int sample(void *context, struct state *state, struct record *record)
{
    int answer = record ? output(context, record, copy_stacks(record), TAKEN) : PLAIN;
    *(volatile u64 *)&state->busy = 0;
    return answer;
}

/* At a function whose calls are counted. */
INLINE int counts(struct pt_regs *context, enum size size)
{
    s64 asked = requested(context, size, BY_BYTES);
    struct state *state = own_state();
    u64 stands_for = asked >= 0 && state ? draw(state, asked) : 0;
    if (!stands_for || !claim(state))
        return TAKEN;
    struct record *record = begin();
    if (record)
        record->value = stands_for;
    return sample(context, state, record);
}

/* Takes the number of the block at the first argument, if it has one: it is about to be given back. */
INLINE u64 forget(struct pt_regs *context)
{
    u64 address = context->di, *known = lookup(&blocks, &address), number;
    if (!known)
        return 0;
    number = *known;
    delete (&blocks, &address);
    return number;
}

/* Tells that the block of a number was given back, if it is one, in a record without stacks. */
INLINE int tell_release(void *context, u64 number)
{
    u64 record[HEAD / sizeof(u64)] = {0};
    record[__builtin_offsetof(struct record, released) / sizeof(u64)] = number;
    if (number)
        event_output(context, &outputs, CURRENT_CPU, record, sizeof record);
    return TAKEN;
}

/* Where a function that allocates begins; `behind` is where it leaves the address, if it does not return it. */
INLINE int begins(struct pt_regs *context, enum size size, u64 behind)
{
    s64 asked = requested(context, size, 1);
    struct state *state = own_state();
    if (asked < 0 || !state)
        return TAKEN;
    if (size == RESIZE && !asked)
        return tell_release(context, forget(context));
    struct call call = {.bytes = draw(state, asked) ? asked : 0, .behind = behind};
    if (size == RESIZE) {
        call.old_number = forget(context);
        call.old_address = context->di;
    }
    u64 caller = context->sp;
    if (call.bytes || call.old_number)
        update(&calls, &caller, &call, 0);
    return TAKEN;
}

/* The block that a call has allocated. */
INLINE u64 allocated(struct pt_regs *context, u64 behind)
{
    u64 address = context->ax;
    if (behind && ((u32)address || read_user(&address, sizeof address, behind)))
        return 0;
    return address;
}

/* Where a function that allocates has returned. */
PROGRAM("kprobe", returns)(struct pt_regs *context)
{
    /* The return address was there. */
    u64 caller = context->sp - sizeof(u64);
    struct call *known = lookup(&calls, &caller);
    if (!known)
        return TAKEN;
    struct call call = *known;
    delete (&calls, &caller);
    u64 address = allocated(context, call.behind);
    if (!address) {
        /* The old block stays where it was. */
        if (call.old_number)
            update(&blocks, &call.old_address, &call.old_number, 0);
        return TAKEN;
    }
    struct state *state = own_state();
    if (!call.bytes || !state || !claim(state))
        return tell_release(context, call.old_number);
    u64 number = __sync_fetch_and_add(&last_number, 1) + 1, *same = lookup(&blocks, &address);
    if (same) {
        /* Nobody saw that the block that had the address was given back; or the function has handed on to another
         * that is looked at, and that block is the same. The one that it has resized is given back besides. */
        u64 replaced = *same;
        tell_release(context, call.old_number);
        call.old_number = replaced;
    }
    if (update(&blocks, &address, &number, 0))
        number = 0;
    struct record *record = begin();
    if (record) {
        record->value = 0;
        record->released = (struct extent){call.old_number, 0};
        record->taken = (struct extent){number, call.bytes};
        /* Inside the call, as every caller's address is taken. */
        record->ip--;
    }
    return sample(context, state, record);
}

/* Where a block is given back. */
PROGRAM("kprobe", frees)(struct pt_regs *context)
{
    return tell_release(context, forget(context));
}

#define COUNTS(name, size) \
    PROGRAM("kprobe", counts_##name)(struct pt_regs * context) { return counts(context, size); }
#define BEGINS(name, size, behind) \
    PROGRAM("kprobe", begins_##name)(struct pt_regs * context) { return begins(context, size, behind); }
COUNTS(first, FIRST)
COUNTS(second, SECOND)
COUNTS(third, THIRD)
COUNTS(product, PRODUCT)
COUNTS(resize, RESIZE)
BEGINS(first, FIRST, 0)
BEGINS(second, SECOND, 0)
BEGINS(third_behind_first, THIRD, context->di)
BEGINS(product, PRODUCT, 0)
BEGINS(resize, RESIZE, 0)
