/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which socket an object of a TLS library belongs to. A library is given a socket in many ways (a descriptor, its own input and output functions,
 * bytes in memory), so nobody asks it: while a thread is inside a call of the library, the socket that it reads or writes is the object's; and when
 * it handed bytes over before the call, the last socket that it read TLS records from and that no object has yet.
 *
 * Hooks on sockets call tls_note_socket() for raw bytes of a connection with CONNECTION_TLS and without CONNECTION_TLS_BOUND.
 */
#ifndef CORAL_TLS_BINDING_H
#define CORAL_TLS_BINDING_H

#include "requests/connection.h"

#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;

/* tls_thread.operation and the low bits of a site's cookie; known to src/traffic/tls/probe-plan.ts. */
#define TLS_READ 1
#define TLS_WRITE 2
#define TLS_FREE 3
#define TLS_OPERATION 15
#define TLS_COUNT_BY_POINTER 16 /* the fourth argument points to the number of bytes; the result is 1 or not */
#define TLS_GO 32
#define TLS_GO_COPY 64 /* a read ends where it copies, not where it returns */
#define TLS_MAY_RESTART 128 /* a branch that Go takes when the stack has to grow; the function then starts over */

#define TLS_FRAME_SHIFT 16 /* above: size of the frame in which Go keeps the arguments of a read; 0: they were noted when it began */

/* Records of this size may be alerts, which are no part of an answer. TLS 1.2 with CBC and SHA-384: 5 and 16 bytes before 2 and 48 that are filled up to 64. */
#define MAX_ALERT_BYTES 85

/* connection.tls_written: a send found no room since, or a part was not taken. */
#define TLS_SEND_FAILED 0x80000000U

/* connection.flags of one whose records need not be looked at. */
#define TLS_SETTLED (CONNECTION_TLS | CONNECTION_TLS_BOUND | CONNECTION_HELLO)

/* Plaintext comes from tls.h, and the name of the server has been told: of the records only the time is wanted. */
static always_inline int is_tls_settled(const struct connection *connection)
{
	return (connection->flags & TLS_SETTLED) == TLS_SETTLED;
}

/* A thread in a call of a library, and the socket with TLS records that it used last. Freed by the kernel with the thread. */
struct tls_thread {
	u64 object;
	u64 buffer;
	u64 count_at;
	u64 start_ns;
	/* The socket that was used inside the call; 0: none. */
	u64 call_sk;
	/* The socket that was read outside of calls and that no object has yet; 0: none. */
	u64 last_sk;
	/* TLS_*; 0: outside. */
	u32 operation;
	u32 reserved;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_TASK_STORAGE);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, int);
	MAP_TYPE(value, struct tls_thread);
} tls_threads SEC(".maps");

struct tls_object {
	u64 address;
	u32 tgid;
	u32 reserved;
};

/* The number of the connection tells whether the socket is still the same. */
struct tls_socket {
	u64 sk;
	u32 connection;
	u32 reserved;
};

/* The least used one goes when it is full: it binds again at its next call. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 32768);
	MAP_TYPE(key, struct tls_object);
	MAP_TYPE(value, struct tls_socket);
} tls_sockets SEC(".maps");

/*
 * What was found in tls_sockets last, by the object: read without a call. An entry is good as long as nothing was taken out of tls_sockets since,
 * which controls.tls_unbound counts.
 */
#define TLS_CACHE_ENTRIES 4096

struct tls_cached {
	u64 object;
	u64 sk;
	u32 tgid;
	u32 connection;
	u32 unbound;
	u32 reserved;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, TLS_CACHE_ENTRIES);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct tls_cached);
} tls_cache SEC(".maps");

/* Processes (tgid) whose plaintext may be read; only asked when tls_controls says so. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 32768);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} tls_processes SEC(".maps");

/* [0]: 1 when only those in tls_processes are read, because some are excluded and a new one is not known at once. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} tls_controls SEC(".maps");

/* Processes (tgid) with connections whose plaintext was never seen; user space takes them out and looks for the reason. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 256);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} tls_opaque SEC(".maps");

/* It has TLS records, and never an object of a library. */
static always_inline int tls_is_opaque(const struct connection *connection)
{
	return (connection->flags & (CONNECTION_TLS | CONNECTION_TLS_BOUND)) == CONNECTION_TLS && connection->protocol == PROTOCOL_UNKNOWN;
}

/* While it is open, too: a pool's connections end with their process. */
static always_inline void tls_note_opaque(const struct connection *connection)
{
	u32 tgid = connection->tgid, one = 1;

	if (tgid && tls_is_opaque(connection) && !bpf_map_lookup_elem(&tls_opaque, &tgid))
		bpf_map_update_elem(&tls_opaque, &tgid, &one, BPF_ANY);
}

/* A connection ends. */
static always_inline void tls_count_opaque(const struct connection *connection)
{
	if (!tls_is_opaque(connection))
		return;
	count_loss(LOSS_TLS_OPAQUE);
	tls_note_opaque(connection);
}

/* Asked once per connection: when it is bound. */
static always_inline int tls_may_read(u32 tgid)
{
	u32 zero = 0;
	u32 *is_strict = bpf_map_lookup_elem(&tls_controls, &zero);

	return !is_strict || !*is_strict || bpf_map_lookup_elem(&tls_processes, &tgid);
}

static always_inline void tls_note_socket(u64 sk, u32 direction)
{
	struct tls_thread *thread = bpf_task_storage_get(&tls_threads, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread)
		return;
	/* What is sent outside of a call was made by a call before, and the next one may be of another object; what is received is handed over at once. */
	if (thread->operation)
		thread->call_sk = sk;
	else if (direction == RECEIVED)
		thread->last_sk = sk;
}

#endif
