/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * CPU samples of the whole machine, one per processor at every tick of a perf event. A sample has the kernel stack and the user stack by
 * frame pointers, or the frames of a language runtime. For programs without frame pointers it has the user registers and a bounded copy of
 * the stack, which user space walks with the program's unwind tables and then drops. A separate object; see src/profile.
 */
#include "core/bpf.h"
#include "core/ring-wake.h"
#include "core/scope.h"
#include "profile/runtime-frames.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define BPF_F_USER_STACK (1 << 8)
#define KERNEL_FRAMES 48
#define USER_FRAMES 128
#define USER_WORDS (2 * RUNTIME_FRAMES)
#define PAGE_BYTES 4096
/* Deep enough for servers; a value of a per-CPU map may not exceed 32 KiB. */
#define STACK_BYTES 16384
/* The red zone: leaf functions use memory below the stack pointer, and unwind rules of an epilogue still refer to it. */
#define RED_ZONE_BYTES 128
/* No stack is larger; an address further away is not its top. */
#define MAX_STACK_SPAN (64 << 20)

/* Without this, clang compares 32-bit copies of a value, and the verifier loses its bounds. */
#define keep_bounds(value) asm volatile("" : "+r"(value))

static long (*const bpf_get_stack)(void *context, void *buffer, u32 size_bytes, u64 flags) = (void *)67;

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpadded"
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct {
	u64 start_stack;
};

struct thread_struct {
	u64 fsbase;
};

struct task_struct___profile {
	struct task_struct___profile *group_leader;
	struct mm_struct *mm;
	u64 start_boottime;
	s32 pid;
	char comm[16];
	struct thread_struct thread;
};

struct pt_regs {
#ifdef __TARGET_ARCH_x86
	u64 r15, r14, r13, r12, bp, bx;
	u64 ip, sp;
#endif
};

#pragma clang attribute pop
#pragma clang diagnostic pop

enum {
	REGISTER_IP,
	REGISTER_SP,
	REGISTER_BP,
	REGISTER_BX,
	REGISTER_12,
	REGISTER_13,
	REGISTER_14,
	REGISTER_15,
	REGISTERS,
};

/* src/profile/kernel/sample-record.ts reads it by the type information of this object. */
struct cpu_sample {
	/* Pid in the agent's pid namespace. */
	u32 process;
	u32 thread;
	/* Start time of the process since boot; identifies it together with the pid. */
	u64 started_ns;
	/* User registers. All 0 for a kernel thread, and on processors other than x86-64. */
	u64 registers[REGISTERS];
	/* Address of the first byte of `stack`. */
	u64 stack_at;
	u32 kernel_frames;
	u32 user_frames;
	u32 stack_bytes;
	u32 is_kernel_thread;
	/* `enum runtime_kind`; 0 for a program without a language runtime. */
	u32 runtime_kind;
	u32 padding;
	char thread_name[16];
	char process_name[16];
	u64 kernel[KERNEL_FRAMES];
	/* `user_frames` return addresses by frame pointers; with a runtime so many pairs of words, `struct runtime_frame`. */
	u64 user[USER_WORDS];
	/* The last page is never sent; it satisfies the verifier. */
	u8 stack[STACK_BYTES + PAGE_BYTES];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cpu_sample);
} scratch SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 1 << 21);
} samples SEC(".maps");

/* Per processor: samples taken, and samples that did not fit into the ring. */
enum {
	COUNT_TAKEN,
	COUNT_DROPPED,
	COUNTS,
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, COUNTS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} counts SEC(".maps");

static always_inline void add_count(u32 which)
{
	u64 *count = bpf_map_lookup_elem(&counts, &which);

	if (count)
		*count += 1;
}

#ifdef __TARGET_ARCH_x86
/* Page by page: an unmapped page then loses only the bytes after it, not the whole stack. */
static always_inline u32 copy_stack(struct cpu_sample *sample, u64 from, u64 wanted)
{
	u64 copied = 0;

	if (wanted > STACK_BYTES)
		wanted = STACK_BYTES;
	for (int page = 0; page < STACK_BYTES / PAGE_BYTES + 1; page++) {
		u64 at = from + copied, length = PAGE_BYTES - (at & (PAGE_BYTES - 1)), to = copied;

		if (copied >= wanted || copied >= STACK_BYTES)
			break;
		if (length > wanted - copied)
			length = wanted - copied;
		keep_bounds(length);
		if (length > PAGE_BYTES)
			break;
		keep_bounds(to);
		to &= STACK_BYTES - 1;
		if (bpf_probe_read_user(&sample->stack[to], length, (void *)at))
			break;
		copied += length;
	}
	return copied;
}

/*
 * Copies only the used part of the stack. Its top is where the kernel started the main thread; for other threads it is the thread control
  * block, which the C library puts at the top of the stack.
 */
static always_inline void add_user_stack(struct cpu_sample *sample, struct task_struct___profile *task, struct mm_struct *mm)
{
	struct pt_regs *registers = (void *)bpf_task_pt_regs((void *)task);
	u64 sp = registers->sp, start = 0, block = 0, wanted = STACK_BYTES;

	sample->registers[REGISTER_IP] = registers->ip;
	sample->registers[REGISTER_SP] = sp;
	sample->registers[REGISTER_BP] = registers->bp;
	sample->registers[REGISTER_BX] = registers->bx;
	sample->registers[REGISTER_12] = registers->r12;
	sample->registers[REGISTER_13] = registers->r13;
	sample->registers[REGISTER_14] = registers->r14;
	sample->registers[REGISTER_15] = registers->r15;
	core_read(&start, &mm->start_stack);
	core_read(&block, &task->thread.fsbase);
	if (start > sp && start - sp < MAX_STACK_SPAN)
		wanted = start - sp + 8;
	else if (block > sp && block - sp < MAX_STACK_SPAN)
		wanted = block - sp + 8;
	sample->stack_at = sp - RED_ZONE_BYTES;
	sample->stack_bytes = copy_stack(sample, sp - RED_ZONE_BYTES, wanted + RED_ZONE_BYTES);
}
#endif

/* Of the language runtime that user space found in the process; 0 if there is none. */
static always_inline int add_runtime_frames(struct cpu_sample *sample, struct task_struct___profile *task)
{
	u32 process = sample->process;
	struct runtime *runtime = bpf_map_lookup_elem(&runtimes, &process);
	struct runtime_frame *frames = (void *)sample->user;

	/* User space knows the start as a double: exact to the microsecond only, after some months. */
	if (!runtime || runtime->started_ns / 1000000 != sample->started_ns / 1000000)
		return 0;
	sample->runtime_kind = runtime->kind;
	if (runtime->kind == RUNTIME_PYTHON)
		sample->user_frames = walk_python(frames, runtime, sample->thread, inner_thread_id((void *)task));
	else if (runtime->kind == RUNTIME_V8)
		sample->user_frames = walk_v8(frames, runtime, sample->registers[REGISTER_IP], sample->registers[REGISTER_BP]);
	return 1;
}

static always_inline void add_frame_pointers(void *context, struct cpu_sample *sample)
{
	long bytes = bpf_get_stack(context, sample->user, USER_FRAMES * sizeof(u64), BPF_F_USER_STACK);

	sample->user_frames = bytes > 0 ? (u32)bytes / 8 : 0;
}

static always_inline void add_identity(struct cpu_sample *sample, struct task_struct___profile *task)
{
	struct task_struct___profile *leader = 0;

	core_read(&leader, &task->group_leader);
	core_read(&sample->started_ns, &leader->start_boottime);
	core_read(&sample->thread_name, &task->comm);
	core_read(&sample->process_name, &leader->comm);
}

SEC("perf_event")
int take_sample(void *context)
{
	struct task_struct___profile *task = (void *)bpf_get_current_task_btf();
	u32 zero = 0, process;
	struct cpu_sample *sample;
	struct mm_struct *mm = 0;
	long bytes;
	u64 length;

	/* The idle task. */
	if (!(u32)bpf_get_current_pid_tgid())
		return 0;
	process = current_process();
	if (is_out_of_scope(process))
		return 0;
	sample = bpf_map_lookup_elem(&scratch, &zero);
	if (!sample)
		return 0;
	add_count(COUNT_TAKEN);
	for (int index = 0; index < REGISTERS; index++)
		sample->registers[index] = 0;
	sample->process = process;
	sample->thread = bpf_get_current_pid_tgid();
	sample->stack_at = 0;
	sample->stack_bytes = 0;
	sample->user_frames = 0;
	sample->runtime_kind = 0;
	add_identity(sample, task);
	bytes = bpf_get_stack(context, sample->kernel, sizeof(sample->kernel), 0);
	sample->kernel_frames = bytes > 0 ? (u32)bytes / 8 : 0;
	core_read(&mm, &task->mm);
	sample->is_kernel_thread = !mm;
	if (mm) {
#ifdef __TARGET_ARCH_x86
		add_user_stack(sample, task, mm);
		if (!add_runtime_frames(sample, task))
#endif
			add_frame_pointers(context, sample);
	}
	length = sample->stack_bytes;
	keep_bounds(length);
	if (length > STACK_BYTES)
		length = STACK_BYTES;
	length += __builtin_offsetof(struct cpu_sample, stack);
	if (bpf_ringbuf_output(&samples, sample, length, wake_flag(&samples)))
		add_count(COUNT_DROPPED);
	return 0;
}
