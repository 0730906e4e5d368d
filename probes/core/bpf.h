/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The base of every BPF program of Coral, included by all of them: fixed-width types, section and map macros, helpers, CO-RE reads.
 *
 * Hand-written, so that building needs clang only: no kernel headers, no libbpf headers. Kernel structures declare only the fields that are
 * read; preserve_access_index makes libbpf look up the real offsets at load time (CO-RE).
 */
#ifndef CORAL_CORE_BPF_H
#define CORAL_CORE_BPF_H

struct task_struct;

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;

#define SEC(name) __attribute__((section(name), used))
#define always_inline inline __attribute__((always_inline))
/* Keeps the instructions of the common path together, so that the processor need not fetch the others. */
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
/*
 * A global (non-static) function: the verifier checks it once, separately, instead of again for every path that leads to a call. It takes
  * numbers and pointers to structures, which the verifier assumes may be null, and returns a number.
 */
#define subprogram __attribute__((noinline))

/* libbpf reads map definitions from BTF: a number is the length of an array type, a type is the target of a pointer. */
#define MAP_NUMBER(name, value) int(*name)[value]
#define MAP_TYPE(name, value) typeof(value) *name

/* <linux/bpf.h>, enum bpf_map_type */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_RINGBUF 27
/* Flags of maps and of updates. */
#define BPF_F_NO_PREALLOC 1
#define BPF_F_MMAPABLE 1024
#define BPF_ANY 0
#define BPF_NOEXIST 1
#define EEXIST 17

/* Helpers are called by number: <linux/bpf.h>, enum bpf_func_id. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_probe_read_user)(void *target, u32 size_bytes, const void *source) = (void *)112;
static long (*const bpf_probe_read_kernel)(void *target, u32 size_bytes, const void *source) = (void *)113;
static long (*const bpf_ringbuf_output)(void *ringbuf, void *data, u64 size_bytes, u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ringbuf, u64 size_bytes, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *record, u64 flags) = (void *)132;
static u64 (*const bpf_ringbuf_query)(void *ringbuf, u64 what) = (void *)134;

static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static long (*const bpf_for_each_map_elem)(void *map, void *callback, void *context, u64 flags) = (void *)164;
static long (*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;

#define BPF_RB_NO_WAKEUP 1
#define BPF_RB_FORCE_WAKEUP 2
/* For bpf_ringbuf_query(). */
#define BPF_RB_AVAIL_DATA 0
#define BPF_RB_RING_SIZE 1

/* Reads a field of a kernel structure through a pointer that the verifier has no type for: core_read(&target, &sock->field). */
#define core_read(target, source) bpf_probe_read_kernel(target, sizeof(*(target)), __builtin_preserve_access_index(source))

/*
 * A typed pointer to a kernel structure at any address (Linux 6.2). Loads through it need no helper call and return 0 for unmapped
  * addresses. Use it only in programs that need a newer kernel anyway: on older ones the symbol stays unresolved.
 */
extern void *bpf_rdonly_cast(const void *address, u32 type) __attribute__((section(".ksyms"), weak));
/*
 * Facts about the running kernel's structures: FIELD_OFFSET(struct sock, sk_protocol). Guard code that reads a field which may be missing
 * with FIELD_EXISTS(): the loader poisons the read, and the verifier rejects it only where it can be reached.
 */
#define FIELD_OFFSET(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define FIELD_EXISTS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
#define kernel_cast(type, address) ((type *)bpf_rdonly_cast(address, __builtin_btf_type_id(*(type *)0, 1)))

/*
 * The lower half of an address as a number. The verifier forbids arithmetic that mixes pointers; the assembly hides the origin of the
 * value.
 */
static always_inline u32 low_half(u64 pointer)
{
	u32 half;

	asm volatile("%0 = %1" : "=w"(half) : "w"((u32)pointer));
	return half;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct {
	void *stack;
	s32 pid;
	s32 tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	char comm[16];
};

#pragma clang attribute pop

#endif
