/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Programs at tracepoints that fire for sockets only and pass the socket: no lookup by descriptor, no cost for other system calls, and
 * connections older than Coral work like new ones. Part of requests.bpf.c.
 *
 * sock_recv_length and sock_send_length need Linux 6.3, tcp_sendmsg_locked 6.16. Kernels without them use hooks-syscall.h.
 */
#ifndef CORAL_REQUESTS_HOOKS_SOCKET_H
#define CORAL_REQUESTS_HOOKS_SOCKET_H

#include "protocol/dns-udp.h"
#include "protocol/redis-socket.h"
#include "requests/unseen.h"

/* Lower end of net.ipv4.ip_local_port_range; the loader sets it. */
const volatile u32 first_client_port = 32768;

#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
/* MPTCP clones an accepted socket from the listener. */
#define TCP_LISTEN 10

/* <linux/net.h>, socket.flags: the send buffer is full. */
#define SOCK_NOSPACE (1 << 2)

/* Plaintext is read when its write begins; the response ends when its record is sent. */
static always_inline int tls_record_sent(struct sock *sk, struct connection *connection, u32 length)
{
	u32 written = connection->tls_written & ~TLS_SEND_FAILED;

	/* A short send with a full buffer: some programs then wait, without ever getting the error. */
	if (unlikely(length < written && sk->sk_socket->flags & SOCK_NOSPACE)) {
		written |= TLS_SEND_FAILED;
		connection->tls_was_full = 1;
	}
	connection->tls_written = written;
	if (connection->role == ROLE_SERVER && connection->state == STATE_RESPONDING && length > MAX_ALERT_BYTES)
		response_is_sent(connection, tcp_time(sk));
	return 0;
}

/* For a socket without a slot: adds its connection and returns it. Passes a datagram on at once and returns null. */
static always_inline struct connection *new_connection(struct sock *sk, s32 length, u32 direction)
{
	u16 family = sk->__sk_common.skc_family;

	if (family == AF_UNIX)
		on_unix_socket(length);
	if (family != AF_INET && family != AF_INET6)
		return 0;
	if (sk->sk_protocol != IPPROTO_UDP)
		return add_connection(sk, SIDE_UNKNOWN);
	on_datagram((u64)sk, sk, (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf()), length, direction, 0);
	return 0;
}

/* `flags` of a receive: MSG_*. */
static always_inline int on_socket(struct sock *sk, struct connection *connection, s32 length, u32 direction, u32 flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *registers;
	struct scratch *scratch;
	struct payload payload;

	payload.tgid = current_process_of(task);
	if (is_out_of_scope(payload.tgid)) {
		/* Saves this lookup next time, unless a process in scope has passed its socket on. */
		if (connection->protocol == PROTOCOL_UNKNOWN)
			connection->protocol = PROTOCOL_IGNORED;
		return 0;
	}
	if (direction == RECEIVED)
		take_ready_stamp(connection, kernel_cast(struct tcp_sock, sk)->copied_seq - length);
	payload.sk = (u64)sk;
	payload.at_ns = direction == RECEIVED ? tcp_read_time(sk) : tcp_time(sk);
	payload.start_ns = 0;
	payload.length = length;
	payload.direction = direction;
	payload.flags = 0;
	payload.is_in_kernel = 0;
	if (direction == SENT)
		take_send_stamp(&payload, connection);
	else
		take_stamp(&payload, connection);
	if (direction != SENT || !find_sent(&payload, connection, task)) {
		registers = registers_of(task);
		find_buffer(&payload, registers);
		if (flags & MSG_TRUNC || !SYSCALL_IS_RUNNING(registers))
			payload.buffer = 0;
		if (unlikely(!SYSCALL_IS_RUNNING(registers) || SYSCALL_NUMBER(registers) == NR_IO_URING_ENTER))
			note_unseen(payload.tgid, UNSEEN_IO_URING);
		if (direction == SENT && !page_base)
			learn_page_base(&payload);
		if (http1_fast_path(&payload, connection))
			return 0;
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
	struct sock *sk = (struct sock *)context[0];
	s32 length = (s32)context[1];
	u32 flags = (u32)context[2];
	struct connection *connection;

	if (length <= 0 || flags & (MSG_PEEK | MSG_ERRQUEUE)) {
		if (length < 0 && sk->sk_protocol == IPPROTO_UDP)
			forget_messages();
		return 0;
	}
	connection = find_connection((u64)sk);
	if (unlikely(!connection))
		connection = new_connection(sk, length, RECEIVED);
	if (unlikely(!connection || connection->protocol == PROTOCOL_IGNORED))
		return 0;
	if (is_tls_settled(connection)) {
		take_ready_stamp(connection, kernel_cast(struct tcp_sock, sk)->copied_seq - length);
		return 0;
	}
	if (likely(!(flags & MSG_TRUNC)) && (http1_received(sk, connection, length) || redis_received(sk, connection, length)))
		return 0;
	return on_socket(sk, connection, length, RECEIVED, flags);
}

SEC("tp_btf/sock_send_length")
int socket_sent(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	s32 length = (s32)context[1];
	struct connection *connection = find_connection((u64)sk);

	if (unlikely(length <= 0)) {
		if (connection && connection->flags & CONNECTION_TLS) {
			connection->tls_written |= TLS_SEND_FAILED;
			connection->tls_was_full = 1;
		}
		return 0;
	}
	if (unlikely(!connection))
		connection = new_connection(sk, length, SENT);
	if (unlikely(!connection || connection->protocol == PROTOCOL_IGNORED))
		return 0;
	if (is_tls_settled(connection))
		return tls_record_sent(sk, connection, length);
	if (http1_sent(sk, connection, length) || redis_sent(sk, connection, length))
		return 0;
	return on_socket(sk, connection, length, SENT, 0);
}

/*
 * True if the ports alone show the side: exactly one of them is in the ephemeral range. Saves a lookup. Only time stamps depend on it, so a
 * client that bound a low port loses little.
 */
static always_inline int ports_imply(u32 side, struct sock *sk)
{
	u32 is_local_chosen = sk->__sk_common.skc_num >= first_client_port;
	u32 is_remote_chosen = __builtin_bswap16(sk->__sk_common.skc_dport) >= first_client_port;

	return is_local_chosen != is_remote_chosen && is_local_chosen == (side == SIDE_CONNECTED);
}

/* Bytes arrived for a server. The time from here to their read is the queue time. */
SEC("tp_btf/sk_data_ready")
int socket_ready(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	u16 family = sk->__sk_common.skc_family;
	struct connection *connection;
	u32 read_until;

	if ((family != AF_INET && family != AF_INET6) || ports_imply(SIDE_CONNECTED, sk))
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
 * A send starts. Stamps those that may block, because TCP records when the last of their bytes were sent, not the first. Called again for
 * each part of a long send. Attached on demand: see take_send_stamp().
 */
SEC("tp_btf/tcp_sendmsg_locked")
int socket_sending(u64 *context)
{
	struct msghdr *message = (struct msghdr *)context[1];
	struct connection *connection;

	if (likely(message->msg_iter.count <= MAX_UNSTAMPED_BYTES))
		return 0;
	connection = find_connection(context[0]);
	if (connection && !connection->arrival_ns && connection->protocol != PROTOCOL_IGNORED &&
	    !(connection->flags & CONNECTION_TLS_BOUND) &&
	    (connection->role ? connection->role == ROLE_CLIENT : connection->side == SIDE_CONNECTED))
		connection->arrival_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * Bytes were read from a socket, by any means. sock_recv_length() reports them as well, except those that went to a pipe. Attached on
 * demand, because every read pays for it: see note_replies_read().
 */
SEC("tp_btf/tcp_rcv_space_adjust")
int socket_drained(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	struct connection *connection = find_connection((u64)sk);
	struct pt_regs *registers;
	u32 before, after;

	if (!connection || connection->protocol == PROTOCOL_IGNORED)
		return 0;
	after = kernel_cast(struct tcp_sock, sk)->copied_seq;
	before = connection->read_seq;
	/* The first read since this program was attached. */
	if (!before && is_plain_client(connection))
		before = connection->ready_seq + (u32)connection->response_bytes;
	else if (!before && connection->ready_ns)
		before = connection->ready_seq;
	connection->read_seq = after;
	registers = registers_of(bpf_get_current_task_btf());
	if (!before || (s32)(after - before) <= 0 || SYSCALL_NUMBER(registers) != NR_SPLICE || !SYSCALL_IS_RUNNING(registers))
		return 0;
	return on_socket(sk, connection, after - before, RECEIVED, MSG_TRUNC);
}

/* True if bytes are left to read; a FIN counts as 1. Reads fields by helper: also attached on kernels without kernel_cast(). */
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
		struct socket *held = 0;

		core_read(&held, &sk->sk_socket);
		/* After a half-close, the response may still be unread when the peer's FIN arrives. */
		if (has_unread(sk))
			return 0;
		if (held)
			note_closed((u64)sk);
		else
			end_connection((u64)sk);
	} else if (after == TCP_ESTABLISHED && (before == TCP_SYN_RECV || before == TCP_SYN_SENT || before == TCP_LISTEN))
		add_connection(sk, before == TCP_SYN_SENT ? SIDE_CONNECTED : SIDE_ACCEPTED);
	return 0;
}

/* The socket was destroyed: nothing can be read from it any more. */
SEC("tp_btf/tcp_destroy_sock")
int socket_destroyed(u64 *context)
{
	return end_connection(context[0]);
}

#endif
