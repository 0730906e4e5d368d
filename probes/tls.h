/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Plaintext of TLS, at the calls of the libraries that make it: OpenSSL and its relatives, and Go's crypto/tls. User space chooses the places
 * (src/traffic/tls), so that a probe costs little, and says by a cookie which function it is. Plaintext goes the way of every other payload:
 * on_data(), and from there only what names need.
 */
#ifndef CORAL_TLS_H
#define CORAL_TLS_H

#include "tls-binding.h"

#if defined(__TARGET_ARCH_x86)

static u64 (*const bpf_get_attach_cookie)(void *context) = (void *)174;

#define FLAG_CARRY 1
#define FLAG_ZERO 64

/* The connection that an object is bound to, or 0. Binds it when this call, or what the thread did before, tells the socket. */
static always_inline u64 tls_socket_of(struct tls_thread *thread, u32 tgid)
{
	struct tls_object key = { .address = thread->object, .tgid = tgid };
	struct tls_socket *known = bpf_map_lookup_elem(&tls_sockets, &key);
	u64 sk = thread->call_sk;
	struct connection *connection;

	if (known && (!sk || sk == known->sk)) {
		connection = find_connection(known->sk);
		if (connection && connection->id == known->connection)
			return known->sk;
		known = 0;
	}
	if (!sk)
		sk = thread->last_sk;
	if (!sk)
		return 0;
	connection = find_connection(sk);
	if (!connection || !(connection->flags & CONNECTION_TLS) || connection->flags & CONNECTION_TLS_BOUND || !tls_may_read(tgid))
		return 0;
	struct tls_socket value = { .sk = sk, .connection = connection->id };

	bpf_map_update_elem(&tls_sockets, &key, &value, BPF_ANY);
	connection->flags |= CONNECTION_TLS_BOUND;
	if (thread->last_sk == sk)
		thread->last_sk = 0;
	return sk;
}

static always_inline void tls_forget(u64 object, u32 tgid)
{
	struct tls_object key = { .address = object, .tgid = tgid };
	struct tls_socket *known = bpf_map_lookup_elem(&tls_sockets, &key);
	struct connection *connection;

	if (!known)
		return;
	connection = find_connection(known->sk);
	if (connection && connection->id == known->connection)
		connection->flags &= ~CONNECTION_TLS_BOUND;
	bpf_map_delete_elem(&tls_sockets, &key);
}

static always_inline void tls_plaintext(u64 sk, u64 buffer, u32 length, u32 direction, u64 at_ns, u32 tgid)
{
	struct payload payload = {
		.sk = sk,
		.buffer = buffer,
		.at_ns = at_ns,
		.first_bytes = length,
		.length = length,
		.tgid = tgid,
		.direction = direction,
		.flags = PAYLOAD_TLS,
	};

	on_data(&payload);
}

/* (object, buffer, length[, length *done]), and SSL_free(object). The cookie tells which. */
SEC("uprobe")
int tls_enter(struct pt_regs *context)
{
	u32 what = bpf_get_attach_cookie(context);
	struct tls_thread *thread;

	if ((what & TLS_OPERATION) == TLS_FREE) {
		tls_forget(context->di, bpf_get_current_pid_tgid() >> 32);
		return 0;
	}
	thread = bpf_task_storage_get(&tls_threads, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	thread->operation = what;
	thread->object = context->di;
	thread->buffer = context->si;
	thread->count_at = context->cx;
	thread->call_sk = 0;
	thread->start_ns = bpf_ktime_get_ns();
	return 0;
}

/* At the end of the function, or at its return: the result is in its register. */
SEC("uprobe")
int tls_exit(struct pt_regs *context)
{
	struct tls_thread *thread = bpf_task_storage_get(&tls_threads, bpf_get_current_task_btf(), 0, 0);
	s32 result = context->ax;
	u32 tgid, what;
	u64 sk;

	if (!thread || !thread->operation)
		return 0;
	what = thread->operation;
	thread->operation = 0;
	tgid = bpf_get_current_pid_tgid() >> 32;
	sk = tls_socket_of(thread, tgid);
	if (!sk || result <= 0)
		return 0;
	if (what & TLS_COUNT_BY_POINTER) {
		u64 count = 0;

		bpf_probe_read_user(&count, sizeof(count), (void *)thread->count_at);
		if (!count || count > 0x7fffffff)
			return 0;
		result = count;
	}
	if ((what & TLS_OPERATION) == TLS_WRITE)
		tls_plaintext(sk, thread->buffer, result, SENT, thread->start_ns, tgid);
	else
		tls_plaintext(sk, thread->buffer, result, RECEIVED, bpf_ktime_get_ns(), tgid);
	return 0;
}

/* Go: a goroutine may go on in another thread, so calls are known by the goroutine (r14). */
struct go_call_key {
	u64 goroutine;
	u32 tgid;
	u32 reserved;
};

struct go_call {
	u64 connection;
	u64 buffer;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 16384);
	MAP_TYPE(key, struct go_call_key);
	MAP_TYPE(value, struct go_call);
} go_calls SEC(".maps");

/* Of struct tls.Conn: the interface net.Conn comes first, so its value is at 8. net.TCPConn, net.netFD and poll.FD begin with what they hold. */
#define GO_INTERFACE_VALUE 8
#define GO_SYSTEM_FD 16

static always_inline u64 go_file_socket(u64 connection)
{
	u64 descriptor = 0;
	s32 fd = -1;

	bpf_probe_read_user(&descriptor, sizeof(descriptor), (void *)connection);
	bpf_probe_read_user(&fd, sizeof(fd), (void *)(descriptor + GO_SYSTEM_FD));
	return fd < 0 ? 0 : socket_of_fd(fd);
}

/* The socket below a tls.Conn: that of the net.Conn in it, or of the one that a wrapper holds first. */
static always_inline u64 go_socket_of(u64 tls_connection, u32 tgid)
{
	struct connection *connection;
	u64 value = 0, inner = 0, sk;

	bpf_probe_read_user(&value, sizeof(value), (void *)(tls_connection + GO_INTERFACE_VALUE));
	sk = go_file_socket(value);
	if (!sk) {
		bpf_probe_read_user(&inner, sizeof(inner), (void *)(value + GO_INTERFACE_VALUE));
		sk = go_file_socket(inner);
	}
	if (!sk)
		return 0;
	connection = find_connection(sk);
	/* A number that looked like a descriptor may be any socket; one with TLS records is the right one. */
	if (!connection || !(connection->flags & CONNECTION_TLS))
		return 0;
	if (!(connection->flags & CONNECTION_TLS_BOUND)) {
		if (!tls_may_read(tgid))
			return 0;
		connection->flags |= CONNECTION_TLS_BOUND;
	}
	return sk;
}

/* (*Conn).Read and Write: ax receiver, bx buffer, cx length. */
SEC("uprobe")
int go_enter(struct pt_regs *context)
{
	u32 what = bpf_get_attach_cookie(context);
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u64 sk;

	if (what & TLS_MAY_BEGIN_AGAIN && context->flags & (FLAG_CARRY | FLAG_ZERO))
		return 0;
	if ((what & TLS_OPERATION) == TLS_READ) {
		struct go_call_key key = { .goroutine = context->r14, .tgid = tgid };
		struct go_call call = { .connection = context->ax, .buffer = context->bx };

		bpf_map_update_elem(&go_calls, &key, &call, BPF_ANY);
		return 0;
	}
	if ((s64)context->cx <= 0 || context->cx > 0x7fffffff)
		return 0;
	sk = go_socket_of(context->ax, tgid);
	if (sk)
		tls_plaintext(sk, context->bx, context->cx, SENT, bpf_ktime_get_ns(), tgid);
	return 0;
}

static always_inline int go_read_done(struct pt_regs *context, u64 target, u64 source, s64 length)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct go_call_key key = { .goroutine = context->r14, .tgid = tgid };
	struct go_call *known = bpf_map_lookup_elem(&go_calls, &key);
	struct go_call call;
	u64 sk;

	if (!known || (target && target != known->buffer))
		return 0;
	call = *known;
	bpf_map_delete_elem(&go_calls, &key);
	if (length <= 0 || length > 0x7fffffff)
		return 0;
	sk = go_socket_of(call.connection, tgid);
	if (sk)
		tls_plaintext(sk, source ? source : call.buffer, length, RECEIVED, bpf_ktime_get_ns(), tgid);
	return 0;
}

/* Where Read calls memmove to hand the plaintext over: ax target, bx source, cx length. */
SEC("uprobe")
int go_copy(struct pt_regs *context)
{
	return go_read_done(context, context->ax, context->bx, context->cx);
}

/* Where Read returns: ax the number of bytes. */
SEC("uprobe")
int go_exit(struct pt_regs *context)
{
	return go_read_done(context, 0, 0, context->ax);
}

#endif
#endif
