/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * TCP connections from the first packet to the end: which process opened each, how it ended, bytes, RTT and retransmits. An object of its
 * own with one program, at the tracepoint for state changes; nothing runs while data flows.
 *
 * The agent also scans sockets, every 30 s or so, and each connection must be counted once. So the agent marks the start and the end of
 * every scan. A connection that no scan can have seen (it started after the last scan and ended before the next) is added to the totals of
 * its peer here. Every other connection is reported on its own when it ends, and the agent checks whether a scan saw it. The first
 * connection of each peer is also reported on its own, when it opens and when it closes.
 */
#include "core/scope.h"
#include "tcp/peers.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct raw_arguments {
	u64 args[3];
};

/* Runs in the process that calls connect(2). */
static always_inline void on_connecting(struct sock___tcp *sk)
{
	struct tracked_connection socket = {};

	socket.started_ns = bpf_ktime_get_ns();
	socket.tgid = current_process();
	socket.role = ROLE_CLIENT;
	track((u64)sk, &socket);
}

static always_inline void on_connected(struct sock___tcp *sk)
{
	u64 id = (u64)sk;
	struct tracked_connection *socket = bpf_map_lookup_elem(&tracked_connections, &id);

	if (!socket)
		return;
	read_endpoints(sk, socket);
	socket->is_established = 1;
	announce(socket, bpf_ktime_get_ns());
}

/*
 * Runs wherever the last packet of the handshake arrived, so the current process means nothing. User space finds the owner by the listener.
 */
static always_inline void on_accepted(struct sock___tcp *sk)
{
	struct tracked_connection socket = {};

	socket.started_ns = bpf_ktime_get_ns();
	socket.role = ROLE_SERVER;
	socket.is_established = 1;
	read_endpoints(sk, &socket);
	announce(&socket, socket.started_ns);
	track((u64)sk, &socket);
}

/* True if a scan, finished or in progress, may have seen the connection. */
static always_inline int may_have_been_scanned(const struct control *marks, u64 started_ns)
{
	return marks->scan_start_ns > marks->scan_end_ns || started_ns <= marks->scan_end_ns;
}

static always_inline void on_closed(struct sock___tcp *sk, s32 before)
{
	u64 id = (u64)sk, now = bpf_ktime_get_ns();
	struct tracked_connection *known = bpf_map_lookup_elem(&tracked_connections, &id);
	struct control *marks = bpf_map_lookup_elem(&control, &zero);
	struct tracked_connection socket = {};
	struct connection_record record;

	if (known)
		socket = *known;
	else if (before == TCP_SYN_SENT || before == TCP_SYN_RECV)
		return;
	if (!socket.is_established)
		read_endpoints(sk, &socket);
	fill_record(&record, &socket, known && !socket.is_established ? RECORD_FAILED : RECORD_CLOSED, now);
	record.reason = reason_of(sk);
	if (record.kind == RECORD_CLOSED)
		read_counters(sk, &record);
	if (known)
		bpf_map_delete_elem(&tracked_connections, &id);
	if (record.kind == RECORD_FAILED && is_new_peer(&socket, now))
		socket.is_first = 1;
	if (known && marks && !socket.is_first && !may_have_been_scanned(marks, socket.started_ns) &&
	    add_to_peer(marks->active, &socket, &record))
		return;
	if (bpf_ringbuf_output(&records, &record, sizeof(record), wake_flag(&records)) != 0)
		count_lost();
}

SEC("raw_tracepoint/inet_sock_set_state")
int on_state(struct raw_arguments *context)
{
	struct sock___tcp *sk = (void *)context->args[0];
	s32 before = (s32)context->args[1], after = (s32)context->args[2];
	u16 protocol = 0;

	if (after != TCP_SYN_SENT && after != TCP_ESTABLISHED && after != TCP_CLOSE)
		return 0;
	core_read(&protocol, &sk->sk_protocol);
	if (protocol != IPPROTO_TCP)
		return 0;
	if (after == TCP_SYN_SENT)
		on_connecting(sk);
	else if (after == TCP_CLOSE && before != TCP_LISTEN && before != TCP_CLOSE)
		on_closed(sk, before);
	else if (after == TCP_ESTABLISHED && before == TCP_SYN_SENT)
		on_connected(sk);
	else if (after == TCP_ESTABLISHED && before == TCP_SYN_RECV)
		on_accepted(sk);
	return 0;
}
