/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads what a process has just sent from the page that TCP copied it to: the bytes are at the end of task_struct.task_frag. That takes a
 * quarter of the time of a read from the memory of the process, and scattered bytes are contiguous there. Part of requests.bpf.c.
 *
 * The kernel refers to that page by its struct page. On x86-64 all memory is mapped contiguously, and so are the page structures, so that
 * the address of the bytes is a linear function of the address of the struct page. Its offset changes with each boot and is not exported.
 * It is derived from a slab: struct slab overlays the struct page, and its freelist points to an object in the page. It is trusted once the
 * bytes found with it equal bytes that a process sent. Until then, and if that fails, everything is read from processes.
 */
#ifndef CORAL_REQUESTS_SENT_BYTES_H
#define CORAL_REQUESTS_SENT_BYTES_H

#include "requests/user-buffer.h"

#define PAGE_BYTES 4096
/* sizeof(struct page) */
#define PAGE_STRUCT_BYTES 64
#define MSG_ZEROCOPY 0x4000000

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpadded"
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

struct slab {
	struct list_head slab_list;
	void *freelist;
};

struct kmem_cache_node {
	struct list_head partial;
};

struct kmem_cache_order_objects {
	u32 x;
};

struct kmem_cache {
	struct kmem_cache_order_objects oo;
	struct list_head list;
	struct kmem_cache_node *node[1];
};

struct proto {
	struct kmem_cache *slab;
};

struct sock_common___sent {
	struct proto *skc_prot;
};

struct sock___sent {
	struct sock_common___sent __sk_common;
};

struct page_frag {
	void *page;
	u32 offset;
};

struct task_struct___sent {
	struct page_frag task_frag;
};

/* Stands for two words at any address: kernel_cast() needs a type that the kernel has. */
struct timespec64 {
	s64 tv_sec;
	s64 tv_nsec;
};

#pragma clang attribute pop
#pragma clang diagnostic pop

/* Address of a page minus PAGE_BYTES / PAGE_STRUCT_BYTES times the address of its struct page; 0: unknown. */
u64 page_base = 0;
/* Attempts to find it so far. */
u32 page_base_tries = 0;
#define MAX_PAGE_BASE_TRIES 256
#define MAX_CACHES 64

/*
 * A candidate for page_base, from a single-page slab that is neither full nor empty; 0: none found among the caches after that of sockets.
 */
static always_inline u64 guess_page_base(struct sock___sent *sk)
{
	struct kmem_cache *cache = 0;
	struct proto *proto = 0;

	if (!FIELD_EXISTS(struct slab, slab_list) || !FIELD_EXISTS(struct slab, freelist) || !FIELD_EXISTS(struct kmem_cache, oo) ||
	    !FIELD_EXISTS(struct kmem_cache, list) || !FIELD_EXISTS(struct kmem_cache, node) ||
	    !FIELD_EXISTS(struct kmem_cache_node, partial))
		return 0;
	core_read(&proto, &sk->__sk_common.skc_prot);
	core_read(&cache, &proto->slab);
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < MAX_CACHES; index++) {
		struct kmem_cache_node *node = 0;
		struct list_head *next = 0;
		u64 object = 0, slab;
		u32 order = 0;

		core_read(&order, &cache->oo.x);
		core_read(&node, &cache->node[0]);
		core_read(&next, &node->partial.next);
		/* The upper half is the order of the slab: log2 of its pages. */
		if (!(order >> 16) && next && next != (void *)__builtin_preserve_access_index(&node->partial)) {
			slab = (u64)next - FIELD_OFFSET(struct slab, slab_list);
			core_read((void **)&object, &((struct slab *)slab)->freelist);
			if (object)
				return object / PAGE_BYTES * PAGE_BYTES - slab * (PAGE_BYTES / PAGE_STRUCT_BYTES);
		}
		core_read(&next, &cache->list.next);
		if (!next)
			return 0;
		cache = (void *)((u64)next - FIELD_OFFSET(struct kmem_cache, list));
	}
	return 0;
}

static always_inline u64 end_of_sent(u64 base, u64 page, u32 offset)
{
	return base + page * (PAGE_BYTES / PAGE_STRUCT_BYTES) + offset;
}

/* Tests a candidate for page_base with a payload that the process just sent from one contiguous buffer. */
subprogram int learn_page_base(struct payload *payload)
{
	struct task_struct___sent *task = (void *)bpf_get_current_task_btf();
	u64 sent[2] = {}, found[2] = {}, page = 0, base;
	u32 offset = 0;

	if (!payload || !payload->buffer || payload->vectors || payload->length < sizeof(sent) || page_base_tries >= MAX_PAGE_BASE_TRIES)
		return 0;
	core_read((void **)&page, &task->task_frag.page);
	core_read(&offset, &task->task_frag.offset);
	if (offset < payload->length || bpf_probe_read_user(sent, sizeof(sent), (void *)payload->buffer))
		return 0;
	page_base_tries++;
	base = guess_page_base((struct sock___sent *)payload->sk);
	if (!base || bpf_probe_read_kernel(found, sizeof(found), (void *)(end_of_sent(base, page, offset) - payload->length)))
		return 0;
	if (sent[0] == found[0] && sent[1] == found[1] && sent[0] != sent[1])
		page_base = base;
	return 0;
}

/*
 * Address of the `length` bytes that the current process just sent. 0: unknown, because they did not fit into the page, or the system call
 * does not copy.
 */
static always_inline u64 sent_bytes(struct task_struct *task, u32 length)
{
	struct timespec64 *fragment = kernel_cast(struct timespec64, &((struct task_struct___sent *)task)->task_frag);
	struct pt_regs *registers = registers_of(task);
	u32 number = SYSCALL_NUMBER(registers), offset = fragment->tv_nsec;

	if (unlikely(!page_base || offset < length || !SYSCALL_IS_RUNNING(registers)))
		return 0;
	if (number != NR_WRITE && number != NR_WRITEV &&
	    !((number == NR_SENDTO || number == NR_SENDMMSG) && !(SYSCALL_FLAGS(registers) & MSG_ZEROCOPY)) &&
	    !(number == NR_SENDMSG && !(SYSCALL_COUNT(registers) & MSG_ZEROCOPY)))
		return 0;
	return end_of_sent(page_base, fragment->tv_sec, offset) - length;
}

/* Points the payload to the sent bytes, for protocols that read them with read_buffer(). 0: their address is unknown. */
static always_inline int find_sent(struct payload *payload, const struct connection *connection, struct task_struct *task)
{
	if (connection->protocol == PROTOCOL_UNKNOWN || connection->protocol == PROTOCOL_HTTP2 || connection->protocol == PROTOCOL_GRPC)
		return 0;
	payload->buffer = sent_bytes(task, payload->length);
	if (!payload->buffer)
		return 0;
	payload->is_in_kernel = 1;
	payload->vectors = 0;
	payload->vector_count = 0;
	payload->first_bytes = payload->length;
	return 1;
}

#endif
