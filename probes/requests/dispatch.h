/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The single way in: every hook, on sockets, on system calls or on TLS libraries, ends in on_data() or on_payload(). */
#ifndef CORAL_REQUESTS_DISPATCH_H
#define CORAL_REQUESTS_DISPATCH_H

#include "protocol/http2.h"
#include "protocol/memcached.h"
#include "protocol/recognise.h"
#include "requests/capture.h"
#include "requests/stream-limit.h"
#include "tls/binding.h"

/* Raw bytes of a TLS connection: requests are in the plaintext. Only the ClientHello is of use, for the name of the server. */
subprogram int on_tls_record(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 total;

	if (!payload || !connection || !scratch)
		return 0;
	if (!(connection->flags & CONNECTION_TLS_BOUND))
		tls_note_socket(payload->sk, payload->direction);
	/* The plaintext is read later than the records; it began with the first of them. */
	if (payload->start_ns && connection->role != ROLE_CLIENT)
		connection->arrival_ns = payload->start_ns;
	if ((connection->flags & CONNECTION_HELLO) || !payload->buffer)
		return 0;
	total = load_head(payload, connection, scratch, HEAD_KEPT);
	if (!total)
		return 0;
	if (total <= 5 && scratch->bytes[0] == 0x16) {
		/* The header was read alone. */
		keep_prefix(payload, connection, scratch);
		return 0;
	}
	connection->flags |= CONNECTION_HELLO;
	if (scratch->bytes[0] != 0x16 || scratch->bytes[5] != 1) {
		connection->prefix_bytes = 0;
		return 0;
	}
	connection->role = payload->direction == RECEIVED ? ROLE_SERVER : ROLE_CLIENT;
	connection->tgid = payload->tgid;
	connection->protocol = PROTOCOL_TLS;
	stream_payload(payload, connection, scratch, CHUNK_BYTES, 0);
	connection->protocol = PROTOCOL_UNKNOWN;
	connection->role = ROLE_NONE;
	return 0;
}

/* MySQL begins in the open; when the client asks for TLS, what follows is recognised anew in the plaintext. extra[0] counts payloads. */
static always_inline int has_changed_to_tls(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	if (connection->protocol != PROTOCOL_MYSQL || (payload->flags & PAYLOAD_TLS) || connection->extra[0] >= 8)
		return 0;
	connection->extra[0]++;
	if (!payload->buffer || !load_head(payload, connection, scratch, HEAD_KEPT))
		return 0;
	if (scratch->bytes[0] != 0x16 || !is_tls_record(scratch->bytes, scratch->total))
		return 0;
	connection->protocol = PROTOCOL_UNKNOWN;
	connection->role = ROLE_NONE;
	connection->misses = 0;
	connection->flags = (connection->flags & ~CONNECTION_STREAMED) | CONNECTION_TLS;
	return 1;
}

/* Nothing more will come of a connection. */
static always_inline void emit_closed(struct connection *connection)
{
	struct payload_record record;

	fill_record(&record, connection);
	record.kind = RECORD_CLOSED;
	record.flags = connection->flags & CONNECTION_TLS ? PAYLOAD_TLS : 0;
	record.at_ns = bpf_ktime_get_ns();
	emit_payload(&record, connection, sizeof(record));
}

subprogram int on_payload(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 captured;

	if (!payload || !connection || !scratch)
		return 0;
	/* The frames of HTTP/2 carry all that a capture needs. */
	captured = connection->protocol == PROTOCOL_HTTP2 ? 0 : captured_process(payload->tgid, payload->at_ns);
	if (captured) {
		u32 tgid = payload->tgid;

		payload->tgid = captured;
		stream_payload(payload, connection, scratch, CHUNK_BYTES, PAYLOAD_CAPTURE);
		payload->tgid = tgid;
	}
	if (connection->protocol == PROTOCOL_UNKNOWN && !recognise(payload, connection, scratch)) {
		if ((connection->flags & CONNECTION_TLS) && !(payload->flags & PAYLOAD_TLS))
			on_tls_record(payload, connection, scratch);
		return 0;
	}
	if (has_changed_to_tls(payload, connection, scratch)) {
		on_tls_record(payload, connection, scratch);
		return 0;
	}
	if (connection->flags & CONNECTION_STREAMED) {
		u32 limit = ladder_limit(connection, stream_limit(connection, payload->direction));

		if (limit >= CHUNK_BYTES && connection->protocol == PROTOCOL_MEMCACHED)
			memcached_data(payload, connection, scratch);
		else if (limit)
			stream_payload(payload, connection, scratch, limit, 0);
		if (redis_has_synced(payload, connection, scratch)) {
			emit_closed(connection);
			connection->protocol = PROTOCOL_IGNORED;
		}
		return 0;
	}
	switch (connection->protocol) {
	case PROTOCOL_HTTP:
		http1_data(payload, connection, scratch);
		break;
	case PROTOCOL_REDIS:
		redis_data(payload, connection, scratch);
		break;
	case PROTOCOL_POSTGRES:
		postgres_data(payload, connection, scratch);
		break;
	case PROTOCOL_HTTP2:
	case PROTOCOL_GRPC:
		if (ladder_limit(connection, 1))
			http2_data(payload, connection, scratch);
		break;
	}
	return 0;
}

static always_inline void read_addresses(struct connection *connection, struct sock *sk)
{
	u16 family = 0, port = 0;

	core_read(&family, &sk->__sk_common.skc_family);
	if (family == AF_INET) {
		u32 address = 0;

		/* ::ffff:a.b.c.d */
		*(u16 *)(connection->local + 10) = 0xffff;
		*(u16 *)(connection->remote + 10) = 0xffff;
		core_read(&address, &sk->__sk_common.skc_rcv_saddr);
		*(u32 *)(connection->local + 12) = address;
		core_read(&address, &sk->__sk_common.skc_daddr);
		*(u32 *)(connection->remote + 12) = address;
	} else {
		core_read((struct in6_addr *)connection->local, &sk->__sk_common.skc_v6_rcv_saddr);
		core_read((struct in6_addr *)connection->remote, &sk->__sk_common.skc_v6_daddr);
	}
	core_read(&connection->local_port, &sk->__sk_common.skc_num);
	core_read(&port, &sk->__sk_common.skc_dport);
	connection->remote_port = __builtin_bswap16(port);
}

/* A connection that is in the table from now on; null when there is no room, or it is no TCP. */
static __attribute__((noinline)) struct connection *add_connection(struct sock *sk, u32 side)
{
	struct connection fresh = {};
	struct controls *control = controls_now();
	struct connection *known;
	u64 key = (u64)sk;
	u16 protocol = 0;
	u8 state = 0;

	core_read(&protocol, &sk->sk_protocol);
	core_read(&state, &sk->__sk_common.skc_state);
	/* Its sockets of TCP carry no payloads, and what carries them is no such socket. */
	if (protocol == IPPROTO_MPTCP && side != SIDE_UNKNOWN)
		count_loss(LOSS_UNKNOWN_PROTOCOL);
	/* What had come before it was closed can still be read; that it ends would not be told again. */
	if (protocol != IPPROTO_TCP || state == TCP_CLOSE || !control)
		return 0;
	read_addresses(&fresh, sk);
	fresh.side = side;
	fresh.queue_ns = ~0ULL;
	fresh.id = __sync_fetch_and_add(&control->next_connection, 1);
	known = find_connection(key);
	/* Fast open: bytes went over it before it was established. */
	if (known && known->side == SIDE_UNKNOWN && *(u32 *)&known->local_port == *(u32 *)&fresh.local_port) {
		known->side = side;
		return known;
	}
	/* What is left of a socket that was at this address before. */
	if (known) {
		fresh.sk = key;
		*known = fresh;
		return known;
	}
	fresh.sk = 1;
	known = claim_slot(key, &fresh);
	if (known)
		return known;
	fresh.sk = key;
	has_overflowed = 1;
	if (bpf_map_update_elem(&connections, &key, &fresh, BPF_ANY)) {
		count_loss(LOSS_CONNECTIONS_FULL);
		return 0;
	}
	return bpf_map_lookup_elem(&connections, &key);
}

static always_inline int is_server(const struct connection *connection)
{
	return connection->role ? connection->role == ROLE_SERVER : connection->side == SIDE_ACCEPTED;
}

/*
 * Bytes are being read; `read_before` is what had been read (tcp_sock.copied_seq) before them. They came when socket_ready() stamped them, if nothing
 * was read since. The end of a stream, read with its last bytes, counts as one more.
 */
static always_inline int has_ready_stamp(const struct connection *connection, u32 read_before)
{
	return connection->ready_ns && read_before - connection->ready_seq <= 1;
}

static always_inline void take_ready_stamp(struct connection *connection, u32 read_before)
{
	if (has_ready_stamp(connection, read_before) && !connection->arrival_ns && is_server(connection))
		connection->arrival_ns = connection->ready_ns;
}

/* Takes the stamp of when this payload arrived, or of when its send began. */
static always_inline void take_stamp(struct payload *payload, struct connection *connection)
{
	u32 side = connection->role ? connection->role : connection->side;

	if (connection->arrival_ns && side == (payload->direction == RECEIVED ? SIDE_ACCEPTED : SIDE_CONNECTED)) {
		payload->start_ns = connection->arrival_ns;
		connection->arrival_ns = 0;
	}
}

/* A longer send may wait for room in the socket's buffer. */
#define MAX_UNSTAMPED_BYTES 8192

static always_inline void request_send_stamps(void)
{
	struct controls *control = controls_now();

	if (control && !control->long_sends)
		control->long_sends = 1;
}

/*
 * When a send began. The stamp of a long one, else when TCP sent it: on loopback the receiver may acknowledge or answer before the send returns, and
 * when that came is what TCP's clock tells then. Once all is acknowledged, TCP knows by the microsecond when the last of it was sent.
 */
static always_inline void take_send_stamp(struct payload *payload, struct connection *connection)
{
	struct tcp_sock *tcp = kernel_cast(struct tcp_sock, (void *)payload->sk);
	u64 first_ns;

	take_stamp(payload, connection);
	if (payload->start_ns || (connection->flags & CONNECTION_TLS_BOUND) ||
	    (connection->role ? connection->role != ROLE_CLIENT : connection->side != SIDE_CONNECTED))
		return;
	payload->start_ns = payload->at_ns;
	if (unlikely(payload->length > MAX_UNSTAMPED_BYTES))
		request_send_stamps();
	if (tcp->snd_una != tcp->write_seq)
		return;
	first_ns = tcp->first_tx_mstamp * 1000;
	if (first_ns < payload->start_ns)
		payload->start_ns = first_ns;
}

/*
 * For tls.h: plaintext that a library gave to, or took from, its process; sk, buffer, at_ns, length (twice: first_bytes), tgid, direction and the
 * flag PAYLOAD_TLS are set, the rest is 0. Uprobes can interrupt each other, hence scratches of their own; when all are in use the payload is
 * lost, and counted.
 */
subprogram int on_data(struct payload *payload)
{
	struct connection *connection;

	if (!payload)
		return 0;
	connection = find_connection(payload->sk);
	if (!connection)
		connection = add_connection((struct sock *)payload->sk, SIDE_UNKNOWN);
	if (!connection || connection->protocol == PROTOCOL_IGNORED)
		return 0;
	connection->flags |= CONNECTION_TLS | CONNECTION_TLS_BOUND;
	take_stamp(payload, connection);
#pragma clang loop unroll(disable)
	for (u32 index = SCRATCH_FIRST_UPROBE; index < SCRATCHES; index++) {
		struct scratch *scratch = scratch_at(index);

		if (!scratch)
			return 0;
		if (scratch->busy)
			continue;
		scratch->busy = 1;
		on_payload(payload, connection, scratch);
		scratch->busy = 0;
		return 0;
	}
	count_loss(LOSS_UNREADABLE);
	return 0;
}

/* The connection has ended: what is open on it is counted, what was answered as such, the rest as unanswered. */
static always_inline int end_connection(u64 sk)
{
	struct connection *connection = find_connection(sk);
	u32 state;

	if (!connection)
		return 0;
	state = take_request(connection);
	if (state == STATE_PENDING) {
		connection->status = STATUS_NO_REPLY;
		connection->end_ns = bpf_ktime_get_ns();
	}
	if (state != STATE_IDLE)
		count_request(connection);
	tls_count_opaque(connection);
	if (connection->protocol != PROTOCOL_IGNORED &&
	    ((connection->flags & CONNECTION_STREAMED) || connection->protocol == PROTOCOL_HTTP2 ||
	     (connection->protocol == PROTOCOL_POSTGRES && connection->extra[POSTGRES_PREPARED]) || captured_until(connection->tgid, 0))) {
		emit_closed(connection);
	}
	if (connection->protocol == PROTOCOL_HTTP2)
		http2_end(sk);
	release_slots(sk);
	return 0;
}

#endif
