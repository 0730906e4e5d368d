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

/* The connection that an object is bound to, or null. Binds it when this call, or what the thread did before, tells the socket. */
static always_inline struct connection *tls_connection_of(struct tls_thread *thread, u32 tgid, u64 *socket)
{
	struct tls_object key = { .address = thread->object, .tgid = tgid };
	struct tls_socket *known = bpf_map_lookup_elem(&tls_sockets, &key);
	u64 sk = thread->call_sk;
	struct connection *connection;

	if (known && (!sk || sk == known->sk)) {
		connection = find_connection(known->sk);
		*socket = known->sk;
		if (connection && connection->id == known->connection)
			return connection;
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
	*socket = sk;
	return connection;
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

/* The end of a call, or its return: the result is in its register. */
static always_inline void tls_call_ends(struct pt_regs *context, struct payload *payload)
{
	struct tls_thread *thread = bpf_task_storage_get(&tls_threads, bpf_get_current_task_btf(), 0, 0);
	struct connection *connection;
	s32 result = context->ax;
	u64 sk = 0;
	u32 what;

	if (!thread || !thread->operation)
		return;
	what = thread->operation;
	thread->operation = 0;
	connection = tls_connection_of(thread, payload->tgid, &sk);
	if (!connection)
		return;
	if (result <= 0) {
		/* Whatever arrived held no plaintext: part of a handshake, a ticket. The next request begins with what comes next. */
		if ((what & TLS_OPERATION) == TLS_READ)
			connection->arrival_ns = 0;
		return;
	}
	if (what & TLS_COUNT_BY_POINTER) {
		u64 count = 0;

		bpf_probe_read_user(&count, sizeof(count), (void *)thread->count_at);
		result = count > 0x7fffffff ? 0 : count;
	}
	payload->buffer = thread->buffer;
	payload->length = result;
	/* Of what was received, the arrival at the socket counts; of what is sent, the call. */
	if ((what & TLS_OPERATION) == TLS_WRITE) {
		payload->direction = SENT;
		payload->start_ns = thread->start_ns;
		if (connection->side == SIDE_CONNECTED)
			connection->arrival_ns = 0;
	}
	payload->sk = sk;
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
static always_inline u64 go_find_socket(u64 tls_connection)
{
	u64 value = 0, inner = 0, sk;

	bpf_probe_read_user(&value, sizeof(value), (void *)(tls_connection + GO_INTERFACE_VALUE));
	sk = go_file_socket(value);
	if (sk)
		return sk;
	bpf_probe_read_user(&inner, sizeof(inner), (void *)(value + GO_INTERFACE_VALUE));
	return go_file_socket(inner);
}

/* Found once; as long as its connection lasts, the tls.Conn above it stays the same. */
static always_inline u64 go_socket_of(u64 tls_connection, u32 tgid)
{
	struct tls_object key = { .address = tls_connection, .tgid = tgid };
	struct tls_socket *known = bpf_map_lookup_elem(&tls_sockets, &key);
	struct connection *connection;
	struct tls_socket found = {};

	if (known) {
		connection = find_connection(known->sk);
		if (connection && connection->id == known->connection && connection->flags & CONNECTION_TLS_BOUND)
			return known->sk;
	}
	found.sk = go_find_socket(tls_connection);
	if (!found.sk)
		return 0;
	connection = find_connection(found.sk);
	/* A number that looked like a descriptor may be any socket; one with TLS records is the right one. */
	if (!connection || !(connection->flags & CONNECTION_TLS) || !tls_may_read(tgid))
		return 0;
	found.connection = connection->id;
	connection->flags |= CONNECTION_TLS_BOUND;
	bpf_map_update_elem(&tls_sockets, &key, &found, BPF_ANY);
	return found.sk;
}

static always_inline int go_begins_again(struct pt_regs *context, u32 what)
{
	return (what & TLS_MAY_BEGIN_AGAIN) && (context->flags & (FLAG_CARRY | FLAG_ZERO));
}

/* ax receiver, bx buffer, cx length; the same for Write. */
static always_inline int go_read_begins(struct pt_regs *context, u32 what)
{
	struct go_call_key key = { .goroutine = context->r14, .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct go_call call = { .connection = context->ax, .buffer = context->bx };

	if (!go_begins_again(context, what))
		bpf_map_update_elem(&go_calls, &key, &call, BPF_ANY);
	return 0;
}

/* (object, buffer, length[, length *done]) and SSL_free(object), or Go's (*Conn).Read: a call begins. The cookie tells which. */
SEC("uprobe")
int tls_enter(struct pt_regs *context)
{
	u32 what = bpf_get_attach_cookie(context);
	struct tls_thread *thread;

	if (what & TLS_GO)
		return go_read_begins(context, what);
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

/* Where Read calls memmove to hand the plaintext over (ax target, bx source, cx length), or where it returns (ax length). */
static always_inline u64 go_read_ends(struct pt_regs *context, struct payload *payload, u32 what)
{
	struct go_call_key key = { .goroutine = context->r14, .tgid = payload->tgid };
	struct go_call call = {};
	u32 frame = what >> TLS_FRAME_SHIFT;
	s64 length = context->ax;

	if (frame) {
		/* Above the frame and the return address. */
		bpf_probe_read_user(&call, sizeof(call), (void *)(context->sp + frame + 8));
	} else {
		struct go_call *known = bpf_map_lookup_elem(&go_calls, &key);

		if (!known)
			return 0;
		call = *known;
	}
	payload->buffer = call.buffer;
	if (what & TLS_GO_COPY) {
		if (context->ax != call.buffer)
			return 0;
		length = context->cx;
		payload->buffer = context->bx;
	}
	if (!frame)
		bpf_map_delete_elem(&go_calls, &key);
	payload->length = length < 0 || length > 0x7fffffff ? 0 : length;
	return call.connection;
}

static always_inline u64 go_write_begins(struct pt_regs *context, struct payload *payload, u32 what)
{
	s64 length = context->cx;

	if (go_begins_again(context, what))
		return 0;
	payload->buffer = context->bx;
	payload->length = length < 0 || length > 0x7fffffff ? 0 : length;
	payload->direction = SENT;
	return context->ax;
}

/* All that ends in plaintext, in one program: so the way from there on is checked and loaded once. */
SEC("uprobe")
int tls_plaintext(struct pt_regs *context)
{
	u32 what = bpf_get_attach_cookie(context);
	struct payload payload = { .flags = PAYLOAD_TLS, .tgid = bpf_get_current_pid_tgid() >> 32 };

	if (what & TLS_GO) {
		u64 connection = (what & TLS_OPERATION) == TLS_WRITE ? go_write_begins(context, &payload, what) : go_read_ends(context, &payload, what);

		if (connection && payload.length)
			payload.sk = go_socket_of(connection, payload.tgid);
	} else {
		tls_call_ends(context, &payload);
	}
	if (!payload.sk || !payload.length)
		return 0;
	payload.first_bytes = payload.length;
	payload.at_ns = bpf_ktime_get_ns();
	on_data(&payload);
	return 0;
}

#endif
#endif
