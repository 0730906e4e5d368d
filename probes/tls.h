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

/* The context of uprobes as programs see it, which never changes. With pt_regs, whose places are looked up, the compiler makes addresses that the verifier refuses. */
struct call_registers {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, number, ip, cs, flags, sp, ss;
};

static u64 (*const bpf_get_attach_cookie)(void *context) = (void *)174;

#define FLAG_CARRY 1
#define FLAG_ZERO 64

/* The connection that an object is bound to, or null. Binds it when its call used a socket (sk; 0: none), or what the thread did before tells it. */
static always_inline struct connection *tls_connection_of(struct tls_thread *thread, u64 object, u64 sk, u32 tgid, u64 *socket)
{
	struct tls_object key = { .address = object, .tgid = tgid };
	struct tls_socket *known = bpf_map_lookup_elem(&tls_sockets, &key);
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

static always_inline struct tls_found *tls_found_place(u64 object)
{
	u32 place = ((u32)(object >> 4) * 0x9e3779b1U) >> 20;

	return bpf_map_lookup_elem(&tls_lately, &place);
}

static always_inline void tls_forget(u64 object, u32 tgid)
{
	struct tls_object key = { .address = object, .tgid = tgid };
	struct tls_socket *known = bpf_map_lookup_elem(&tls_sockets, &key);
	struct tls_found *found = tls_found_place(object);
	struct connection *connection;

	if (found && found->object.address == object && found->object.tgid == tgid)
		found->object.address = 0;
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
	connection = tls_connection_of(thread, thread->object, thread->call_sk, payload->tgid, &sk);
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

/* For a payload whose connection is known. 0: it has to go the way of all others. */
subprogram int tls_counts(struct payload *payload, struct connection *connection)
{
	if (!payload || !connection)
		return 1;
	take_stamp(payload, connection);
	return connection->protocol == PROTOCOL_IGNORED || http1_quick(payload, connection);
}

/*
 * A write of an object whose socket is known is read when it begins. One that finds no room is called again with what is left, or with all of it: that
 * was counted already.
 */
static always_inline void tls_write_begins(const struct call_registers *context, u32 what, struct connection *connection, struct payload *payload)
{
	/* SSL_write() takes an int. */
	u64 length = what & TLS_COUNT_BY_POINTER ? context->dx : (u32)context->dx;
	u32 is_again = connection->send_failed && length <= connection->tls_written;

	connection->send_failed = 0;
	if (is_again || !length || length > 0x7fffffff)
		return;
	connection->tls_written = length;
	payload->buffer = context->si;
	payload->length = length;
	payload->first_bytes = length;
	payload->direction = SENT;
	payload->at_ns = bpf_ktime_get_ns();
	payload->start_ns = payload->at_ns;
	if (connection->side == SIDE_CONNECTED)
		connection->arrival_ns = 0;
	if (!tls_counts(payload, connection))
		on_data(payload);
}

extern _Bool bpf_session_is_return(void) __attribute__((section(".ksyms"), weak));
extern u64 *bpf_session_cookie(void) __attribute__((section(".ksyms"), weak));

/* The connection that an object is bound to, and its socket; null: none, or it has ended. */
static always_inline struct connection *tls_bound_connection(u64 object, u32 tgid, u64 *sk)
{
	struct tls_found *found = tls_found_place(object);
	struct tls_object key = { .address = object, .tgid = tgid };
	struct connection *connection;
	struct tls_socket *known;
	u32 zero = 0, *unbound = bpf_map_lookup_elem(&tls_unbound, &zero);

	if (!found || !unbound)
		return 0;
	if (found->object.address == object && found->object.tgid == tgid && found->unbound == *unbound) {
		*sk = found->socket.sk;
		connection = find_connection(*sk);
		if (connection && connection->id == found->socket.connection)
			return connection;
	}
	known = bpf_map_lookup_elem(&tls_sockets, &key);
	if (!known)
		return 0;
	*sk = known->sk;
	connection = find_connection(*sk);
	if (!connection || connection->id != known->connection)
		return 0;
	found->object.address = 0;
	found->socket = *known;
	found->unbound = *unbound;
	found->object.tgid = tgid;
	found->object.address = object;
	return connection;
}

/* 1: the return is not wanted. */
static always_inline int tls_call_begins(const struct call_registers *context, u32 what, u64 *bound)
{
	struct payload payload = { .flags = PAYLOAD_TLS, .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct tls_thread *thread;
	u64 sk = 0;
	struct connection *connection = tls_bound_connection(context->di, payload.tgid, &sk);

	*bound = 0;
	/* During a handshake a write takes nothing, and is called again after it; so until the first plaintext, only the return tells what was written. */
	if (connection && ((what & TLS_OPERATION) != TLS_WRITE || connection->protocol != PROTOCOL_UNKNOWN)) {
		payload.sk = sk;
		if ((what & TLS_OPERATION) == TLS_WRITE) {
			tls_write_begins(context, what, connection, &payload);
			return 1;
		}
		connection->tls_buffer = context->si;
		connection->tls_count_at = what & TLS_COUNT_BY_POINTER ? context->cx : 0;
		*bound = sk;
		return 0;
	}
	thread = bpf_task_storage_get(&tls_threads, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 1;
	thread->operation = what;
	thread->object = context->di;
	thread->buffer = context->si;
	thread->count_at = context->cx;
	thread->call_sk = 0;
	thread->start_ns = bpf_ktime_get_ns();
	return 0;
}

/* A read of an object whose socket is known returns. */
static always_inline void tls_read_returns(const struct call_registers *context, u64 sk)
{
	struct payload payload = { .flags = PAYLOAD_TLS, .sk = sk };
	struct connection *connection = find_connection(sk);
	s32 result = context->ax;

	if (!connection)
		return;
	if (result <= 0) {
		connection->arrival_ns = 0;
		return;
	}
	payload.tgid = bpf_get_current_pid_tgid() >> 32;
	if (connection->tls_count_at) {
		u64 count = 0;

		bpf_probe_read_user(&count, sizeof(count), (void *)connection->tls_count_at);
		result = count > 0x7fffffff ? 0 : count;
	}
	if (!result)
		return;
	payload.buffer = connection->tls_buffer;
	payload.length = result;
	payload.first_bytes = result;
	payload.direction = RECEIVED;
	/* When its records were read. */
	payload.at_ns = tcp_time((struct sock *)sk);
	if (!tls_counts(&payload, connection))
		on_data(&payload);
}

/* The begin and the return of a call in one program (Linux 6.13): it decides at the begin whether the return is worth a stop. */
SEC("uprobe/session")
int tls_call(struct pt_regs *context)
{
	u64 *bound = bpf_session_cookie();
	struct payload payload;

	if (!bpf_session_is_return())
		return tls_call_begins((void *)context, bpf_get_attach_cookie(context), bound);
	if (*bound) {
		tls_read_returns((void *)context, *bound);
		return 0;
	}
	__builtin_memset(&payload, 0, sizeof(payload));
	payload.flags = PAYLOAD_TLS;
	payload.tgid = bpf_get_current_pid_tgid() >> 32;
	tls_call_ends(context, &payload);
	if (!payload.sk || !payload.length)
		return 0;
	payload.first_bytes = payload.length;
	payload.at_ns = bpf_ktime_get_ns();
	on_data(&payload);
	return 0;
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
