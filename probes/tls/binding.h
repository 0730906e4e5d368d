/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finds the socket that an object of a TLS library (SSL, tls.Conn) belongs to. Part of requests.bpf.c.
 *
 * A library can get its bytes in many ways: from a descriptor, from I/O functions of the application, from memory. So the socket is
 * inferred. While a thread is inside a call of the library, the socket that it reads or writes belongs to the object. If the thread read
 * the bytes before the call, it is the last socket with TLS records that the thread read and that no object is bound to.
 *
 * The socket hooks call tls_note_socket() for raw bytes of connections with CONNECTION_TLS and without CONNECTION_TLS_BOUND.
 */
#ifndef CORAL_TLS_BINDING_H
#define CORAL_TLS_BINDING_H

#include "requests/connection.h"

#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;

/* tls_thread.operation, and the low bits of the cookie of a uprobe; repeated in probe-plan.ts. */
#define TLS_READ 1
#define TLS_WRITE 2
#define TLS_FREE 3
#define TLS_OPERATION 15
#define TLS_COUNT_BY_POINTER 16 /* the fourth argument points to the byte count; the result is only success */
#define TLS_GO 32
#define TLS_GO_COPY 64 /* plaintext is read where Read copies it, not where it returns */
#define TLS_MAY_RESTART 128 /* probe on Go's stack check: taken if the stack must grow, after which the function restarts */

#define TLS_FRAME_SHIFT 16 /* bits above: frame size of Go's Read, where it spilled its arguments; 0: go_calls has them */

/*
 * Records up to this size may be alerts, which are not part of a response. The longest alert is TLS 1.2 with CBC and SHA-384: 5 bytes of
 * header and 16 of IV, then 2 of alert and 48 of MAC, padded to 64.
 */
#define MAX_ALERT_BYTES 85

/* connection.tls_written: since the last write a send failed for lack of buffer space, or was accepted only in part. */
#define TLS_SEND_FAILED 0x80000000U

/* connection.flags of a connection whose records need not be read. */
#define TLS_SETTLED (CONNECTION_TLS | CONNECTION_TLS_BOUND | CONNECTION_HELLO)

/* True if uprobes supply the plaintext and the ClientHello has been emitted: then only the time of records matters. */
static always_inline int is_tls_settled(const struct connection *connection)
{
	return (connection->flags & TLS_SETTLED) == TLS_SETTLED;
}

/* A thread inside a call of a TLS library, and the last socket with TLS records that it used. The kernel frees it with the thread. */
struct tls_thread {
	u64 object;
	u64 buffer;
	u64 count_at;
	u64 start_ns;
	/* The socket used inside the call; 0: none. */
	u64 call_sk;
	/* The last socket read outside of calls that no object is bound to; 0: none. */
	u64 last_sk;
	/* TLS_READ, TLS_WRITE and flags; 0: the thread is outside. */
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

/* `connection` is connection.id: it detects a new connection at the same address. */
struct tls_socket {
	u64 sk;
	u32 connection;
	u32 reserved;
};

/* When full, the least recently used object is evicted; it is bound again at its next call. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 32768);
	MAP_TYPE(key, struct tls_object);
	MAP_TYPE(value, struct tls_socket);
} tls_sockets SEC(".maps");

/*
 * A direct-mapped cache in front of tls_sockets, indexed by the object's address: an array lookup needs no helper call. An entry is valid
 * while `unbound` equals controls.tls_unbound, which counts removals from tls_sockets.
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

/* Processes (tgid) whose plaintext may be read. Consulted only if tls_controls says so. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 32768);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} tls_processes SEC(".maps");

/* [0]: 1 if only processes in tls_processes are read. Set when some processes are excluded, since a new process is not known at once. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} tls_controls SEC(".maps");

/* Processes (tgid) with connections whose plaintext was never seen. User space empties the map and finds the reason. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 256);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} tls_opaque SEC(".maps");

/* The connection carries TLS records, but no object was ever bound to it. */
static always_inline int tls_is_opaque(const struct connection *connection)
{
	return (connection->flags & (CONNECTION_TLS | CONNECTION_TLS_BOUND)) == CONNECTION_TLS && connection->protocol == PROTOCOL_UNKNOWN;
}

/* Also called while the connection is open: pooled connections live as long as their process. */
static always_inline void tls_note_opaque(const struct connection *connection)
{
	u32 tgid = connection->tgid, one = 1;

	if (tgid && tls_is_opaque(connection) && !bpf_map_lookup_elem(&tls_opaque, &tgid))
		bpf_map_update_elem(&tls_opaque, &tgid, &one, BPF_ANY);
}

/* Called when a connection ends. */
static always_inline void tls_count_opaque(const struct connection *connection)
{
	if (!tls_is_opaque(connection))
		return;
	count_loss(LOSS_TLS_OPAQUE);
	tls_note_opaque(connection);
}

/* Checked once per connection, when it is bound. */
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
	/*
	 * Received bytes are handed to the library at once. Bytes sent outside of a call are left over from an earlier call, and the next
	 * call may be for another object.
	 */
	if (thread->operation)
		thread->call_sk = sk;
	else if (direction == RECEIVED)
		thread->last_sk = sk;
}

#endif
