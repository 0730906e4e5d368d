/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of connections: the state of each socket and of the request that is open on it; controls, losses. Part of requests.bpf.c.
 *
 * kernel-layout.ts and kernel-controls.ts repeat enums and structures of this header; a test compares them with the BTF of the object.
 */
#ifndef CORAL_REQUESTS_CONNECTION_H
#define CORAL_REQUESTS_CONNECTION_H

#include "protocol/protocols.h"
#include "requests/socket.h"

enum role {
	ROLE_NONE = 0,
	ROLE_SERVER = 1,
	ROLE_CLIENT = 2,
};

/* The end that opened the connection: the other one, or this one. */
enum side {
	SIDE_UNKNOWN = 0,
	SIDE_ACCEPTED = 1,
	SIDE_CONNECTED = 2,
};

enum direction {
	RECEIVED = 0,
	SENT = 1,
};

/* State of the one request that the kernel tracks on a connection: none; sent, no response yet; the response has started. */
enum state {
	STATE_IDLE = 0,
	STATE_PENDING = 1,
	STATE_RESPONDING = 2,
};

/* connection.flags */
#define CONNECTION_TLS 1 /* raw bytes are TLS records; requests come as plaintext from tls/ */
#define CONNECTION_TLS_BOUND 2 /* tls/binding.h knows the SSL object of this socket */
#define CONNECTION_STREAMED 4 /* every payload goes to the ring: pipelined requests, or a protocol that user space decodes */
#define CONNECTION_NAMED 8 /* a record with the name of the process was emitted */
#define CONNECTION_COPY 16 /* Postgres: COPY is in progress, what the client sends is data */
#define CONNECTION_REPEATABLE 32 /* `head` holds a whole request line whose fingerprint user space knows */
#define CONNECTION_HELLO 64 /* the ClientHello was emitted */
#define CONNECTION_SUBSCRIBED 128 /* Redis: what follows the first response belongs to no request */

/* connection.missed: 1 << RECEIVED and 1 << SENT for records that are counted; the next two bits for copies of captures. */
#define MISSED_RECORDS 3
#define MISSED_COPIES 12

/* Bytes of a request that a connection keeps. */
#define HEAD_KEPT 64

/* connection.end_ns: later than any time, so that no sweep counts the request as ended. */
#define UNSENT ~0ULL

/*
 * Ordered by cache line (64 bytes), which move between processors as a whole, and slowly. On loopback, the processor of the sender stamps
 * what arrives for a server. It reads the first line, which is not written to while requests repeat, and writes the line with `ready_ns`,
 * which nothing else writes. All other lines belong to the processor of the process.
 */
struct connection {
	/* Address of struct sock; 0: the slot is free, 1: it is being filled. */
	u64 sk;
	/* Fingerprint of the request line in `head`. */
	u64 head_fingerprint;
	/* The next five fields are read as one word: see state_word(). Length of the payload that started with `head`. */
	u32 head_payload_bytes;
	u8 protocol;
	u8 role;
	u8 flags;
	/* Bytes of an incomplete request in `head`, which then is not repeatable. */
	u8 prefix_bytes;

	u16 local_port;
	u16 remote_port;
	/* SIDE_*: which end opened the connection, if that was seen. */
	u8 side;
	u8 method;
	u8 head_method;
	/* controls.generation when `head` was learned. */
	u8 head_generation;
	/* Bytes of a repeatable `head`: up to the end of the path, rounded up to a multiple of 8; zeros follow. */
	u8 head_bytes;
	u8 prefix_direction;
	/* Bytes of an incomplete response in `response_prefix`. */
	u8 response_prefix_bytes;
	u8 misses;
	/* Payloads not counted as misses, because they may be the middle of an HTTP/2 stream. */
	u8 deferred_misses;
	/* tls/: 1 after a send failed for lack of buffer space; the returns of writes are probed then. */
	u8 tls_was_full;
	/* 1: the connection is closed, but the process still has the socket. */
	u8 is_closed;
	u8 reserved;
	/* Number of this connection in records. */
	u32 id;
	u32 tgid;
	u8 remote[16];

	u8 head[HEAD_KEPT];

	/* STATE_*; changed by atomic exchange, because a sweep may finish the request at the same time. */
	u32 state;
	u32 status;
	u64 start_ns;
	/* UNSENT: a response in TLS that was written to the library and not yet sent. */
	u64 first_byte_ns;
	u64 end_ns;
	/* Time between arrival and read at a server; ~0: unknown. */
	u64 queue_ns;
	u64 fingerprint;
	u64 request_bytes;
	u64 response_bytes;

	/* Server: when the bytes that are being read arrived. Client: when the current send started. 0: unknown. */
	u64 arrival_ns;
	/* Postgres, Redis: bytes of the open request still to come. HTTP/1 in TLS: lower half of the address of the last write; 0: any. */
	u32 request_left;
	/*
	 * tls/: bytes of the last write, with TLS_SEND_FAILED if a send after it failed; or the bytes that it did not accept, with that
	 * bit.
	 */
	u32 tls_written;
	/* State of a decoder. POSTGRES_*, REDIS_* and others in protocol/ are the indexes. */
	u64 extra[4];
	u8 response_prefix[16];

	/* Server: when the oldest unread bytes arrived, and tcp_sock.copied_seq at that time. Client: copied_seq at the last send. */
	u64 ready_ns;
	u32 ready_seq;
	/* MISSED_*: directions that lost records since the last one was emitted. Changed by atomic operations. */
	u32 missed;
	u8 local[16];
	/* tcp_sock.copied_seq after the last read, while socket_drained() is attached; 0: unknown. */
	u32 read_seq;
	u8 reserved3[28];

	/* tls/: where the current read puts its plaintext, and where its byte count (0: it is the result). */
	u64 tls_buffer;
	u64 tls_count_at;
	u8 reserved4[48];
};

/*
 * A connection has two slots, by the address of its socket. An array lookup is inlined, where a hash lookup costs as much as the rest of a
 * hook. The loader sets the number of slots, a power of two, and the mask. BPF_F_MMAPABLE aligns the array to a page, and so entries to
 * cache lines.
 */
#define CONNECTION_SLOTS 16384
const volatile u32 connection_slot_mask = CONNECTION_SLOTS - 1;

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, CONNECTION_SLOTS);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct connection);
} connection_slots SEC(".maps");

/* Connections whose slots were taken. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 65536);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, u64); /* address of struct sock */
	MAP_TYPE(value, struct connection);
} connections SEC(".maps");

/* 1 once a connection went to `connections`; until then it is not searched. */
u32 has_overflowed = 0;

/* 1 if the hooks of hooks-socket.h are attached. They stamp sent responses, so that uprobes need not read the clock. */
const volatile u32 has_socket_hooks = 0;

/* Reasons of losses; kernel-layout.ts repeats the order. */
enum loss {
	LOSS_RING_FULL = 0,
	LOSS_ROUTES_FULL = 1,
	LOSS_CONNECTIONS_FULL = 2,
	LOSS_UNKNOWN_PROTOCOL = 3,
	LOSS_UNDECODED = 4,
	LOSS_UNREADABLE = 5,
	LOSS_TLS_OPAQUE = 6,
	LOSS_SAMPLED_OUT = 7,
	LOSS_KINDS = 8,
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, LOSS_KINDS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} losses SEC(".maps");

/* Settings that user space may change while the programs run. */
struct controls {
	/* The number of the next connection. */
	u32 next_connection;
	/* Sampling of connections that go through the ring: only those whose number has none of these bits are read; 0: all. */
	u32 sample_mask;
	/* One bit per PROTOCOL_*: its connections are ignored and counted as sampled out. */
	u32 skipped_protocols;
	/* Above 0 if capture_targets is not empty. */
	u32 capturing;
	/* Most bytes of a payload that go to the ring; 0: as many as the protocol needs. */
	u32 stream_bytes;
	/* One bit per PROTOCOL_*: disabled in the configuration, ignored without being counted. */
	u32 disabled_protocols;
	/* Incremented when user space has evicted names: connections must emit them again. */
	u32 generation;
	/* Incremented when user space has removed entries of tls_sockets. */
	u32 tls_unbound;
	/* Set by the programs: a client makes long sends, so user space must attach socket_sending(). */
	u32 long_sends;
	/* Set by the programs: a client's replies are read in ways that no hook sees, so user space must attach socket_drained(). */
	u32 hidden_reads;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct controls);
} controls SEC(".maps");

/* Processes (tgid) that are not observed: Coral's own. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 256);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} own_processes SEC(".maps");

/* Processes (tgid) whose payloads are copied, and until when (CLOCK_MONOTONIC, ns). */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 256);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} capture_targets SEC(".maps");

static always_inline void count_loss(u32 loss)
{
	u64 *count = bpf_map_lookup_elem(&losses, &loss);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static always_inline struct controls *controls_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&controls, &zero);
}

static always_inline int is_capturing(void)
{
	struct controls *control = controls_now();

	return !control || control->capturing;
}

static always_inline u32 connection_slot(u64 sk)
{
	return (low_half(sk) * 0x9e3779b1U) >> 16 & connection_slot_mask;
}

static always_inline struct connection *find_connection(u64 sk)
{
	u32 slot = connection_slot(sk);
	struct connection *connection = bpf_map_lookup_elem(&connection_slots, &slot);

	if (likely(connection && connection->sk == sk))
		return connection;
	slot ^= 1;
	connection = bpf_map_lookup_elem(&connection_slots, &slot);
	if (connection && connection->sk == sk)
		return connection;
	return has_overflowed ? bpf_map_lookup_elem(&connections, &sk) : 0;
}

/* Copies a connection to a free slot; null if both slots are taken. */
static always_inline struct connection *claim_slot(u64 sk, const struct connection *fresh)
{
	u32 slot = connection_slot(sk);

#pragma clang loop unroll(full)
	for (u32 way = 0; way < 2; way++, slot ^= 1) {
		struct connection *connection = bpf_map_lookup_elem(&connection_slots, &slot);

		if (!connection || __sync_val_compare_and_swap(&connection->sk, 0, 1))
			continue;
		*connection = *fresh;
		__sync_lock_test_and_set(&connection->sk, sk);
		return connection;
	}
	return 0;
}

/* Frees both slots: two hooks that saw the first bytes of a connection at the same time may both have added it. */
static always_inline void release_slots(u64 sk)
{
	u32 slot = connection_slot(sk);

#pragma clang loop unroll(full)
	for (u32 way = 0; way < 2; way++, slot ^= 1) {
		struct connection *connection = bpf_map_lookup_elem(&connection_slots, &slot);

		if (connection && connection->sk == sk)
			__sync_lock_test_and_set(&connection->sk, 0);
	}
	if (has_overflowed)
		bpf_map_delete_elem(&connections, &sk);
}

/* True if bytes in this direction are requests, false if they are responses. Only for connections with a role. */
static always_inline int is_request(const struct connection *connection, u32 direction)
{
	return (connection->role == ROLE_SERVER) == (direction == RECEIVED);
}

static always_inline u16 server_port(const struct connection *connection)
{
	return connection->role == ROLE_SERVER ? connection->local_port : connection->remote_port;
}

#endif
