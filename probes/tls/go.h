/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Go's crypto/tls: (*Conn).Read and (*Conn).Write, with arguments in the registers of Go's ABI. The socket is found by following the
 * pointers in tls.Conn. Part of requests.bpf.c.
 */
#ifndef CORAL_TLS_GO_H
#define CORAL_TLS_GO_H

#include "requests/dispatch.h"

#define FLAG_CARRY 1
#define FLAG_ZERO 64

/* A goroutine may move to another thread during a call, so calls are keyed by goroutine (r14). */
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

/*
 * tls.Conn starts with an interface, net.Conn, whose data word is at offset 8. net.TCPConn, net.netFD and poll.FD start with what they
 * wrap.
 */
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

/* The socket under a tls.Conn: that of its net.Conn or, if that is a wrapper, of the net.Conn at the start of the wrapper. */
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

/* Looks the socket up once per connection: a tls.Conn keeps its net.Conn for life. */
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
	/* The value may not be a descriptor. Accept only a socket with TLS records. */
	if (!connection || !(connection->flags & CONNECTION_TLS) || !tls_may_read(tgid))
		return 0;
	found.connection = connection->id;
	connection->flags |= CONNECTION_TLS_BOUND;
	bpf_map_update_elem(&tls_sockets, &key, &found, BPF_ANY);
	return found.sk;
}

static always_inline int go_restarts(struct pt_regs *context, u32 what)
{
	return (what & TLS_MAY_RESTART) && (context->flags & (FLAG_CARRY | FLAG_ZERO));
}

/* Go's ABI: receiver in ax, buffer in bx, length in cx; the same for Write. */
static always_inline int go_read_begins(struct pt_regs *context, u32 process, u32 what)
{
	struct go_call_key key = { .goroutine = context->r14, .tgid = process };
	struct go_call call = { .connection = context->ax, .buffer = context->bx };

	if (!go_restarts(context, what))
		bpf_map_update_elem(&go_calls, &key, &call, BPF_ANY);
	return 0;
}

/* At the call of memmove that hands plaintext over (ax target, bx source, cx length), or at the return of Read (ax length). */
static always_inline u64 go_read_ends(struct pt_regs *context, struct payload *payload, u32 what)
{
	struct go_call_key key = { .goroutine = context->r14, .tgid = payload->tgid };
	struct go_call call = {};
	u32 frame = what >> TLS_FRAME_SHIFT;
	s64 length = context->ax;

	if (frame) {
		/* Spilled arguments are above the frame and the return address. */
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

	if (go_restarts(context, what))
		return 0;
	payload->buffer = context->bx;
	payload->length = length < 0 || length > 0x7fffffff ? 0 : length;
	payload->direction = SENT;
	return context->ax;
}

#endif
