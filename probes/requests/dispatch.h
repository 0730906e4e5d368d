/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The entry for payloads: every hook, on sockets, system calls or TLS libraries, ends in on_payload() or on_data(), which pass it to its
 * decoder. Also adds and ends connections, and stamps their times. Part of requests.bpf.c.
 */
#ifndef CORAL_REQUESTS_DISPATCH_H
#define CORAL_REQUESTS_DISPATCH_H

#include "protocol/http2.h"
#include "protocol/memcached.h"
#include "protocol/recognise.h"
#include "requests/capture.h"
#include "requests/stream-limit.h"
#include "tls/binding.h"

/* Raw bytes of a TLS connection. Requests are in the plaintext; of the records only the ClientHello is used, for the server name. */
subprogram int on_tls_record(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 total;

	if (!payload || !connection || !scratch)
		return 0;
	if (!(connection->flags & CONNECTION_TLS_BOUND))
		tls_note_socket(payload->sk, payload->direction);
	/* Plaintext is read after its records, but the request started with the first of them. */
	if (payload->start_ns && connection->role != ROLE_CLIENT)
		connection->arrival_ns = payload->start_ns;
	if ((connection->flags & CONNECTION_HELLO) || !payload->buffer)
		return 0;
	total = load_head(payload, connection, scratch, HEAD_KEPT);
	if (!total)
		return 0;
	if (total <= 5 && scratch->bytes[0] == 0x16) {
		/* The process read the 5 bytes of the header alone. */
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

/*
 * MySQL starts in plaintext. If the client requests TLS, the protocol is recognised again in the decrypted bytes. extra[0] counts payloads:
 * the handshake is among the first.
 */
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

/* Reports that a connection has ended. */
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
	/* Frames of HTTP/2 carry all that a capture needs. */
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

/* Adds a connection to the table; null if the table is full, or the socket is not TCP. */
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
	/* MPTCP: its TCP subflows carry no payloads, and the socket that carries them is not a TCP socket. */
	if (protocol == IPPROTO_MPTCP && side != SIDE_UNKNOWN)
		count_loss(LOSS_UNKNOWN_PROTOCOL);
	/* Bytes that arrived before a close can still be read, but the end of the connection has already been reported. */
	if (protocol != IPPROTO_TCP || state == TCP_CLOSE || !control)
		return 0;
	read_addresses(&fresh, sk);
	fresh.side = side;
	fresh.queue_ns = ~0ULL;
	fresh.id = __sync_fetch_and_add(&control->next_connection, 1);
	known = find_connection(key);
	/* TCP fast open: data was sent before the connection was established. */
	if (known && known->side == SIDE_UNKNOWN && *(u32 *)&known->local_port == *(u32 *)&fresh.local_port) {
		known->side = side;
		return known;
	}
	/* A stale entry of an earlier socket at this address. */
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
 * True if the bytes that are being read arrived when socket_ready() stamped them, that is, if nothing was read since. `read_before` is
 * tcp_sock.copied_seq before the read. A FIN that is read with the last bytes adds 1.
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

/* Moves the time of arrival, or of the start of the send, from the connection to the payload. */
static always_inline void take_stamp(struct payload *payload, struct connection *connection)
{
	u32 side = connection->role ? connection->role : connection->side;

	if (connection->arrival_ns && side == (payload->direction == RECEIVED ? SIDE_ACCEPTED : SIDE_CONNECTED)) {
		payload->start_ns = connection->arrival_ns;
		connection->arrival_ns = 0;
	}
}

/* A longer send may block until the socket's buffer has space. */
#define MAX_UNSTAMPED_BYTES 8192

static always_inline void request_send_stamps(void)
{
	struct controls *control = controls_now();

	if (control && !control->long_sends)
		control->long_sends = 1;
}

/*
 * A client's reply was read in part or in whole where sock_recv_length() is not called: by splice(2), by TCP_ZEROCOPY_RECEIVE, or in the
 * kernel. Without its first bytes, the reply can neither be decoded nor counted as missing.
 */
subprogram int on_hidden_reply(struct connection *connection, u32 bytes)
{
	struct controls *control = controls_now();

	if (!connection)
		return 0;
	if (control && !control->hidden_reads)
		control->hidden_reads = 1;
	if (connection->state == STATE_PENDING) {
		if (take_request(connection) == STATE_PENDING)
			count_loss(LOSS_UNREADABLE);
	} else if (connection->state == STATE_RESPONDING && connection->protocol == PROTOCOL_HTTP) {
		connection->response_bytes += bytes;
	}
	return 0;
}

/* Bytes that were read since the last send and that no hook saw. A FIN that was read counts as 1. */
static always_inline s32 hidden_bytes(const struct connection *connection, u32 copied_seq)
{
	return copied_seq - connection->ready_seq - (u32)connection->response_bytes;
}

static always_inline int is_plain_client(const struct connection *connection)
{
	return !(connection->flags & (CONNECTION_TLS | CONNECTION_TLS_BOUND)) &&
	       (connection->role ? connection->role == ROLE_CLIENT : connection->side == SIDE_CONNECTED);
}

/* At the start of each send of a client: what it has read until now was the reply to the request before. */
static always_inline void note_replies_read(struct tcp_sock *tcp, struct connection *connection)
{
	u32 copied_seq = tcp->copied_seq;
	s32 hidden = hidden_bytes(connection, copied_seq);

	if (unlikely(connection->state != STATE_IDLE && hidden > 1))
		on_hidden_reply(connection, hidden);
	connection->ready_seq = copied_seq;
}

/*
 * When a send started: the stamp of a long send, else the time at which TCP sent it. On loopback the receiver may acknowledge or respond
  * before the send returns, and TCP's clock then has that later time. Once everything is acknowledged, first_tx_mstamp is the time at which
  * the last bytes were sent.
 */
static always_inline void take_send_stamp(struct payload *payload, struct connection *connection)
{
	struct tcp_sock *tcp = kernel_cast(struct tcp_sock, (void *)payload->sk);
	u64 first_ns;

	take_stamp(payload, connection);
	if (is_plain_client(connection))
		note_replies_read(tcp, connection);
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
 * The entry for plaintext that a TLS library exchanged with its process. The caller sets sk, buffer, at_ns, length and first_bytes (equal),
 * tgid, direction and PAYLOAD_TLS; the rest is 0. Uprobes can preempt each other, so each takes a scratch buffer of its own; if all are in
 * use, the payload is dropped and counted.
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

/*
 * The connection is closed, and a process still has its socket. It may be in a send that has not returned: a blocking server that is
 * sending a long response when its client resets the connection. The end comes with the last close, or with the sweep.
 */
static always_inline void note_closed(u64 sk)
{
	struct connection *connection = find_connection(sk);

	if (!connection)
		return;
	connection->is_closed = 1;
	if (connection->state == STATE_PENDING)
		connection->end_ns = bpf_ktime_get_ns();
}

/* The connection has ended. Counts the open request: by its status if the response had started, else as one without a reply. */
static always_inline int end_connection(u64 sk)
{
	struct connection *connection = find_connection(sk);
	u32 state;

	if (!connection)
		return 0;
	if (has_socket_hooks && connection->state != STATE_IDLE && is_plain_client(connection)) {
		struct tcp_sock *tcp = (struct tcp_sock *)sk;
		u32 copied_seq = 0;
		s32 hidden;

		core_read(&copied_seq, &tcp->copied_seq);
		hidden = hidden_bytes(connection, copied_seq);
		if (hidden > 1)
			on_hidden_reply(connection, hidden);
	}
	state = take_request(connection);
	if (state == STATE_PENDING) {
		connection->status = STATUS_NO_REPLY;
		if (!connection->is_closed || !connection->end_ns)
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
