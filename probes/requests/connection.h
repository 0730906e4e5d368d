/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of connections: what is known of each socket, and of the request that is open on it. Numbers here are repeated in
 * src/traffic/kernel-layout.ts, which a test compares with the type information of the object.
 */
#ifndef CORAL_REQUESTS_CONNECTION_H
#define CORAL_REQUESTS_CONNECTION_H

#include "requests/socket.h"

/* The order of `trafficProtocols` in src/traffic/messages.ts, from 1 on. */
enum protocol {
	PROTOCOL_UNKNOWN = 0,
	PROTOCOL_HTTP = 1,
	PROTOCOL_HTTP2 = 2,
	PROTOCOL_GRPC = 3,
	PROTOCOL_POSTGRES = 4,
	PROTOCOL_MYSQL = 5,
	PROTOCOL_REDIS = 6,
	PROTOCOL_MEMCACHED = 7,
	PROTOCOL_MONGODB = 8,
	PROTOCOL_KAFKA = 9,
	PROTOCOL_DNS = 10,
	PROTOCOL_TLS = 11,
	/* Nobody's protocol, one of Coral's own processes, or one whose requests have ended: one lookup and out. */
	PROTOCOL_IGNORED = 255,
};

enum role {
	ROLE_NONE = 0,
	ROLE_SERVER = 1,
	ROLE_CLIENT = 2,
};

enum side {
	SIDE_UNKNOWN = 0,
	SIDE_ACCEPTED = 1,
	SIDE_CONNECTED = 2,
};

enum direction {
	RECEIVED = 0,
	SENT = 1,
};

/* Of the one request that the kernel follows on a connection. */
enum state {
	STATE_IDLE = 0,
	STATE_PENDING = 1,
	STATE_RESPONDING = 2,
};

/* connection.flags */
#define CONNECTION_TLS 1 /* raw bytes are TLS records; requests come as plaintext from tls.h */
#define CONNECTION_TLS_BOUND 2 /* tls.h knows which SSL object this is: no need to remember the thread */
#define CONNECTION_STREAMED 4 /* every payload goes to the ring: several requests at once, or a protocol read in user space */
#define CONNECTION_NAMED 8 /* a record has told what its process is called */
#define CONNECTION_COPY 16 /* Postgres: COPY is under way, bytes asked are data */
#define CONNECTION_REPEATABLE 32 /* `head` holds a whole request line whose fingerprint is known in user space */
#define CONNECTION_HELLO 64 /* the ClientHello was sent to the ring */
#define CONNECTION_SUBSCRIBED 128 /* Redis: what comes after the first answer belongs to no request */

#define HEAD_KEPT 64

/* connection.end_ns: later than any time, so that no sweep takes the request for ended. */
#define UNSENT ~0ULL

/*
 * Pieces of 64 bytes, which processors hand over to each other as a whole, and slowly. On one machine what comes in for a server is stamped by the
 * processor of whoever sent it: it reads the first piece, which nobody writes to while requests repeat, and writes to the one with `ready_ns`, which
 * nobody else writes to. All others are the process's own.
 */
struct connection {
	/* Address of struct sock; 0: the place is free, 1: it is being filled. */
	u64 sk;
	/* Fingerprint of `head`. */
	u64 head_fingerprint;
	/* These five are one word: see what_is_followed(). Length of the payload that `head` began. */
	u32 head_payload_bytes;
	u8 protocol;
	u8 role;
	u8 flags;
	/* Bytes of an unfinished beginning in `head`; then it is not repeatable. */
	u8 prefix_bytes;

	u16 local_port;
	u16 remote_port;
	/* SIDE_*: who opened the connection, where that was seen. */
	u8 side;
	u8 method;
	u8 head_method;
	/* Of the names in user space when `head` was told. */
	u8 head_generation;
	/* Of `head`, when it is repeatable: up to the end of the path and some more, a multiple of 8; zeros follow. */
	u8 head_bytes;
	u8 prefix_direction;
	/* Bytes of an unfinished beginning of an answer in `answer`. */
	u8 response_prefix_bytes;
	u8 misses;
	/* Payloads that were not counted as misses, because they may be the middle of HTTP/2. */
	u8 deferred_misses;
	/* tls.h: 1 when a send has found no room, so that the returns of writes are looked at. */
	u8 tls_was_full;
	u8 reserved[2];
	/* Number of this connection in records. */
	u32 id;
	u32 tgid;
	u8 remote[16];

	u8 head[HEAD_KEPT];

	/* STATE_*; changed by exchange, because a sweep may finish a request at the same time. */
	u32 state;
	u32 status;
	u64 start_ns;
	/* UNSENT: of an answer in TLS that is still to be sent. */
	u64 first_byte_ns;
	u64 end_ns;
	/* ~0: unknown. */
	u64 queue_ns;
	u64 fingerprint;
	u64 request_bytes;
	u64 response_bytes;

	/* Server: when bytes came that are being read. Client: when the send that is under way began. 0: unknown. */
	u64 arrival_ns;
	/* Postgres, Redis: bytes of the open request that are still to come. HTTP/1 in TLS: where the bytes of the last write were, the lower half; 0: anywhere. */
	u32 request_left;
	/* tls.h: bytes of the last write, and in the highest bit whether a send after it found no room; or what it did not take, with that bit. */
	u32 tls_written;
	/* What a protocol has to remember; see there. */
	u64 extra[4];
	u8 response_prefix[16];

	/* Server: when bytes came that nobody has read yet, and what had been read until then (tcp_sock.copied_seq). */
	u64 ready_ns;
	u32 ready_seq;
	/* Of payloads that go through the ring: which directions (1 << RECEIVED, 1 << SENT) have lost records since one was told. Changed by atomic operations. */
	u32 missed;
	u8 local[16];
	u8 reserved3[32];

	/* tls.h: of the read that is under way where its plaintext goes, and where its size (0: it is the result). */
	u64 tls_buffer;
	u64 tls_count_at;
	u8 reserved4[48];
};

/*
 * Connections have places by the address of their socket, two each. A program reads an array without a call, where a hash table takes as long as
 * all the rest. The loader sets the number of places, a power of two, with the mask. An array that could be mapped begins at a page, any other
 * in the middle of what a processor fetches.
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

/* Those whose places were taken. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 65536);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, u64); /* address of struct sock */
	MAP_TYPE(value, struct connection);
} connections SEC(".maps");

/* 1 from the first connection without a place on; until then nobody looks further. */
u32 has_overflowed = 0;

/* Why something was not seen; the order is known to src/traffic/kernel-layout.ts. */
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

/* What user space may change while programs run. */
struct controls {
	/* Connections seen so far: the next number. */
	u32 next_connection;
	/* A connection that goes through the ring is followed when these bits of its number are 0; 0: all are. */
	u32 sample_mask;
	/* One bit per PROTOCOL_*: connections that turn out to speak it are ignored and counted as sampled out. */
	u32 skipped_protocols;
	/* Above 0 when capture_targets holds something. */
	u32 capturing;
	/* Most bytes of a payload that go to the ring; 0: as many as its protocol needs. */
	u32 stream_bytes;
	/* One bit per PROTOCOL_*: ignored because nobody wants to know. */
	u32 disabled_protocols;
	/* Rises whenever user space has forgotten names; what connections remember to have been told is void then. */
	u32 generation;
	/* Rises when user space has taken bindings out of tls_sockets. */
	u32 tls_unbound;
	/* Set here: a client sends so much at once that socket_sending() is wanted, which user space attaches then. */
	u32 long_sends;
	u32 reserved;
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

/* Processes (tgid) whose payloads are copied until a time (CLOCK_MONOTONIC, ns). */
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

/* Puts a connection that is in no place into one; null when both are taken. */
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

/* Two that saw the first bytes of a connection at once may both have added it. */
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

/* True when bytes that go this way ask, false when they answer. Only for connections with a role. */
static always_inline int is_request(const struct connection *connection, u32 direction)
{
	return (connection->role == ROLE_SERVER) == (direction == RECEIVED);
}

static always_inline u16 server_port(const struct connection *connection)
{
	return connection->role == ROLE_SERVER ? connection->local_port : connection->remote_port;
}

#endif
