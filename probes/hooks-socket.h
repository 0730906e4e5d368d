/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hooks that fire for sockets only and pass the socket itself: no table of descriptors, no cost for other system calls, and connections older
 * than Coral work like new ones. sock_recv_length and sock_send_length came with Linux 6.3, tcp_sendmsg_locked with 6.16.
 */
#ifndef CORAL_HOOKS_SOCKET_H
#define CORAL_HOOKS_SOCKET_H

#include "datagram.h"

/* Lower end of net.ipv4.ip_local_port_range. */
const volatile u32 first_client_port = 32768;

#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3

/* A longer send may wait for room in the socket's buffer. */
#define MAX_UNSTAMPED_BYTES 8192

/*
 * When a send began. The stamp of a long one, else when TCP sent it: on loopback the receiver may answer before the send returns, and that its answer
 * came is what TCP's clock tells then; when the last bytes that it acknowledged were sent, TCP knows by the microsecond.
 */
static always_inline void take_send_stamp(struct payload *payload, struct connection *connection)
{
	struct tcp_sock *tcp = kernel_cast(struct tcp_sock, (void *)payload->sk);
	u64 first_ns;

	take_stamp(payload, connection);
	if (payload->start_ns || (connection->flags & CONNECTION_TLS_BOUND) || (connection->role ? connection->role != ROLE_CLIENT : connection->side != SIDE_CONNECTED))
		return;
	payload->start_ns = payload->at_ns;
	if (tcp->rcv_nxt == tcp->copied_seq || (connection->flags & CONNECTION_STREAMED) || connection->protocol == PROTOCOL_HTTP2)
		return;
	first_ns = tcp->first_tx_mstamp * 1000;
	if (first_ns < payload->start_ns)
		payload->start_ns = first_ns;
}

/* Plaintext is read when its write begins; an answer ends when it was sent. Alerts, which are short, are no part of it. */
#define MAX_ALERT_BYTES 64

static always_inline void tls_record_sent(struct sock *sk, struct connection *connection, u32 length)
{
	connection->send_failed = 0;
	if (connection->role == ROLE_SERVER && connection->state == STATE_ANSWERED && length > MAX_ALERT_BYTES)
		connection->end_ns = tcp_time(sk);
}

static always_inline int on_socket(struct sock *sk, s32 length, u32 flags, u32 direction)
{
	struct connection *connection;
	struct task_struct *task;
	struct scratch *scratch;
	struct payload payload;
	u32 is_known, seen = HTTP_SEEN_NOTHING;

	if (length <= 0 || flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	connection = find_connection((u64)sk);
	if (!connection) {
		u16 family = sk->__sk_common.skc_family;

		if (family != AF_INET && family != AF_INET6)
			return 0;
		if (sk->sk_protocol == IPPROTO_UDP)
			return on_datagram((u64)sk, sk, (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf()), length, direction, 0);
		connection = add_connection(sk, SIDE_UNKNOWN);
	}
	if (!connection || connection->protocol == PROTOCOL_IGNORED)
		return 0;
	if (direction == RECEIVED)
		take_ready(connection, kernel_cast(struct tcp_sock, sk)->copied_seq - length);
	/* Plaintext comes from tls.h, and the name of the server has been told: of the records only the time is wanted. */
	if ((connection->flags & TLS_SETTLED) == TLS_SETTLED) {
		if (direction == SENT)
			tls_record_sent(sk, connection, length);
		return 0;
	}
	payload.sk = (u64)sk;
	payload.at_ns = tcp_time(sk);
	payload.start_ns = 0;
	payload.length = length;
	payload.direction = direction;
	payload.flags = 0;
	is_known = direction == SENT && connection->send_buffer;
	if (is_known) {
		payload.buffer = connection->send_buffer;
		payload.first_bytes = connection->send_bytes;
		payload.vectors = 0;
		payload.vector_count = 0;
		connection->send_buffer = 0;
		/* Of less than all of it nothing is known. */
		if ((u32)length == connection->send_left)
			seen = connection->send_seen;
	}
	if (direction == SENT)
		take_send_stamp(&payload, connection);
	else
		take_stamp(&payload, connection);
	/* Whose answer it is, is known from what it answers. */
	if (!is_known || connection->role != ROLE_SERVER) {
		task = bpf_get_current_task_btf();
		payload.tgid = task->tgid;
		if (!is_known)
			find_buffer(&payload, registers_of(task));
	}
	if (http1_quick(&payload, connection, seen))
		return 0;
	if (is_known) {
		task = bpf_get_current_task_btf();
		payload.tgid = task->tgid;
		find_buffer(&payload, registers_of(task));
	}
	scratch = scratch_at(SCRATCH_SOCKET);
	if (!scratch)
		return 0;
	if (connection->flags & CONNECTION_TLS)
		on_tls_record(&payload, connection, scratch);
	else
		on_payload(&payload, connection, scratch);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int socket_received(u64 *context)
{
	return on_socket((struct sock *)context[0], (s32)context[1], (u32)context[2], RECEIVED);
}

SEC("tp_btf/sock_send_length")
int socket_sent(u64 *context)
{
	s32 length = (s32)context[1];

	if (length <= 0) {
		struct connection *connection = find_connection(context[0]);

		if (connection) {
			connection->send_buffer = 0;
			connection->send_failed = 1;
		}
		return 0;
	}
	return on_socket((struct sock *)context[0], length, 0, SENT);
}

/*
 * Saves a lookup where the ports tell which side this is: one is of the range that clients get theirs from, the other is not. Only stamps of time
 * depend on it, so a client that chose its own port loses little.
 */
static always_inline int is_surely(u32 side, struct sock *sk)
{
	u32 is_local_chosen = sk->__sk_common.skc_num >= first_client_port;
	u32 is_remote_chosen = __builtin_bswap16(sk->__sk_common.skc_dport) >= first_client_port;

	return is_local_chosen != is_remote_chosen && is_local_chosen == (side == SIDE_CONNECTED);
}

/* Bytes came for a server: from here on they wait. */
SEC("tp_btf/sk_data_ready")
int socket_ready(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	u16 family = sk->__sk_common.skc_family;
	struct connection *connection;
	u32 read_until;

	if ((family != AF_INET && family != AF_INET6) || is_surely(SIDE_CONNECTED, sk))
		return 0;
	connection = find_connection((u64)sk);
	if (!connection || connection->protocol == PROTOCOL_IGNORED || !is_server(connection))
		return 0;
	read_until = kernel_cast(struct tcp_sock, sk)->copied_seq;
	if (!connection->ready_ns || connection->ready_seq != read_until) {
		connection->ready_ns = tcp_time(sk);
		connection->ready_seq = read_until;
	}
	return 0;
}

/*
 * A send begins: notes where its bytes are, and what they are, which is dearer to find out afterwards. One that may have to wait for room is stamped, because TCP tells
 * when it sent the last of them. Called again for every piece of a long one.
 */
SEC("tp_btf/tcp_sendmsg_locked")
int socket_sending(u64 *context)
{
	struct connection *connection = find_connection(context[0]);
	struct msghdr *message = (struct msghdr *)context[1];
	u64 left = message->msg_iter.count;

	if (!connection || connection->protocol == PROTOCOL_IGNORED || (connection->flags & TLS_SETTLED) == TLS_SETTLED)
		return 0;
	if (connection->send_buffer && left < connection->send_left)
		return 0;
	connection->send_buffer = 0;
	connection->send_left = left > 0xffffffff ? 0xffffffff : left;
	if (message->msg_iter.iter_type == ENUM_VALUE(enum iter_type, ITER_UBUF) && !message->msg_iter.iov_offset) {
		connection->send_bytes = connection->send_left;
		connection->send_buffer = (u64)message->msg_iter.ubuf;
	} else if (message->msg_iter.iter_type == ENUM_VALUE(enum iter_type, ITER_IOVEC) && !message->msg_iter.iov_offset) {
		const struct iovec *piece = message->msg_iter.__iov;

		connection->send_bytes = piece->iov_len > left ? left : piece->iov_len;
		connection->send_buffer = (u64)piece->iov_base;
	}
	/* Here TCP has not copied the bytes yet: whoever touches them first waits for them, and afterwards they would have to be fetched again. */
	connection->send_seen = connection->send_buffer && http1_is_followed(connection) && !(connection->flags & CONNECTION_TLS)
					? http1_look(connection, SENT, connection->send_buffer, connection->send_bytes, connection->send_left)
					: HTTP_SEEN_NOTHING;
	if (left > MAX_UNSTAMPED_BYTES && !connection->arrival_ns && !(connection->flags & CONNECTION_TLS_BOUND) &&
	    (connection->role ? connection->role == ROLE_CLIENT : connection->side == SIDE_CONNECTED))
		connection->arrival_ns = bpf_ktime_get_ns();
	return 0;
}

/* The end of a stream counts as one. Also on kernels without kernel_cast(): connections end there too. */
static always_inline int has_unread(struct sock *sk)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	u32 received = 0, read = 0;

	core_read(&received, &tcp->rcv_nxt);
	core_read(&read, &tcp->copied_seq);
	return (s32)(received - read) > 1;
}

SEC("tp_btf/inet_sock_set_state")
int socket_state(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	s32 before = (s32)context[1], after = (s32)context[2];

	if (after == TCP_CLOSE) {
		/* Who has sent its own end first has the answer still to read when the other end comes with it. */
		if (!has_unread(sk))
			end_connection((u64)sk);
	} else if (after == TCP_ESTABLISHED && (before == TCP_SYN_RECV || before == TCP_SYN_SENT))
		add_connection(sk, before == TCP_SYN_RECV ? SIDE_ACCEPTED : SIDE_CONNECTED);
	return 0;
}

/* Nobody can read from it any more. */
SEC("tp_btf/tcp_destroy_sock")
int socket_destroyed(u64 *context)
{
	return end_connection(context[0]);
}

#endif
