/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Frames of V8 and CPython, read while the thread is stopped: V8 moves functions, and both change their stacks. User space writes to
 * `runtimes` which processes run one, and where that version keeps what is read here; src/profile names the frames later.
 */
#ifndef CORAL_RUNTIME_FRAMES_H
#define CORAL_RUNTIME_FRAMES_H

#include "core/bpf.h"
#include "core/scope.h"

#define RUNTIME_FRAMES 128
/* Threads of an interpreter that are searched for the one that runs; found threads are remembered. */
#define MAX_PYTHON_THREADS 256
#define MAX_REMEMBERED_THREADS 4096
/* src/profile forgets processes without samples, and has no more than half as many at a time. */
#define MAX_RUNTIMES 1024
/* User addresses are below. */
#define USER_END (1ull << 47)

enum runtime_kind {
	RUNTIME_V8 = 1,
	RUNTIME_PYTHON = 2,
};

/* Byte offsets, but for `runtime_address`. Fields of the other runtime are 0. */
struct runtime {
	/* Of the process: a pid that is used again is another process. */
	u64 started_ns;
	u32 kind;
	/* V8: in a JSFunction. */
	u32 shared_info;
	/* CPython: of `_PyRuntime` in the process. */
	u64 runtime_address;
	u32 interpreter_head;
	u32 thread_head;
	u32 thread_next;
	u32 thread_id;
	/* In the thread state: the frame, or what has it at `holder_frame` if `has_holder`. */
	u32 thread_frame;
	u32 has_holder;
	u32 holder_frame;
	u32 frame_code;
	u32 frame_previous;
	u32 frame_owner;
};

/* Innermost first. */
struct runtime_frame {
	/* V8: of the instruction. CPython: the frame's owner, which tells trampolines of the interpreter from functions. */
	u64 address;
	/* V8: the SharedFunctionInfo, 0 where the frame is none of JavaScript. CPython: the code object. */
	u64 function;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, MAX_RUNTIMES);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct runtime);
} runtimes SEC(".maps");

/* CPython's thread states by thread, checked before each use. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, MAX_REMEMBERED_THREADS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} python_threads SEC(".maps");

static always_inline u64 read_user_word(u64 address)
{
	u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

static always_inline u32 read_user_half(u64 address)
{
	u32 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

/*
 * V8 keeps frame pointers. Below one lie a word that is the context in frames of JavaScript (a tagged pointer) and a small integer in
 * others, and below that the JSFunction. A frame of C++ may hold words that look alike: user space checks what they point to.
 */
static always_inline u32 walk_v8(struct runtime_frame *frames, const struct runtime *runtime, u64 address, u64 pointer)
{
	u32 count = 0;

	for (u32 index = 0; index < RUNTIME_FRAMES; index++) {
		/* The function, context or marker, the caller's frame pointer, the return address. */
		u64 words[4];

		frames[index].address = address;
		frames[index].function = 0;
		count = index + 1;
		if (bpf_probe_read_user(words, sizeof(words), (void *)(pointer - 16)))
			break;
		if ((words[1] & 3) == 1 && (words[0] & 3) == 1 && words[0] < USER_END)
			frames[index].function = read_user_word(words[0] - 1 + runtime->shared_info);
		if (words[2] <= pointer)
			break;
		pointer = words[2];
		address = words[3];
	}
	return count;
}

static always_inline u64 find_python_thread(const struct runtime *runtime, u32 thread, u32 inner_thread)
{
	u64 *known = bpf_map_lookup_elem(&python_threads, &thread);
	u64 state;

	if (known && read_user_half(*known + runtime->thread_id) == inner_thread)
		return *known;
	state = read_user_word(runtime->runtime_address + runtime->interpreter_head);
	state = read_user_word(state + runtime->thread_head);
	for (int index = 0; index < MAX_PYTHON_THREADS && state; index++) {
		if (read_user_half(state + runtime->thread_id) == inner_thread) {
			bpf_map_update_elem(&python_threads, &thread, &state, BPF_ANY);
			return state;
		}
		state = read_user_word(state + runtime->thread_next);
	}
	return 0;
}

/* The id of a thread as it sees it itself: in the innermost pid namespace. */
static always_inline u32 inner_thread_id(struct task_struct___pid *task)
{
	struct pid *pid = 0;
	u32 level = 0;
	s32 number = 0;

	core_read(&pid, &task->thread_pid);
	core_read(&level, &pid->level);
	if (level > MAX_PID_NAMESPACE_LEVEL)
		return 0;
	core_read(&number, &((struct upid *)((void *)pid + FIELD_OFFSET(struct pid, numbers) + level * UPID_BYTES))->nr);
	return number;
}

static always_inline u32 walk_python(struct runtime_frame *frames, const struct runtime *runtime, u32 thread, u32 inner_thread)
{
	u64 state = find_python_thread(runtime, thread, inner_thread), frame;
	u32 count = 0;

	if (!state)
		return 0;
	frame = read_user_word(state + runtime->thread_frame);
	if (runtime->has_holder)
		frame = read_user_word(frame + runtime->holder_frame);
	for (u32 index = 0; index < RUNTIME_FRAMES; index++) {
		u8 owner = 0;

		if (!frame)
			break;
		bpf_probe_read_user(&owner, sizeof(owner), (void *)(frame + runtime->frame_owner));
		frames[index].address = owner;
		frames[index].function = read_user_word(frame + runtime->frame_code);
		frame = read_user_word(frame + runtime->frame_previous);
		count = index + 1;
	}
	return count;
}

#endif
