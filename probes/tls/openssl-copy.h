/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads of OpenSSL with one probe hit instead of two, and none for reads without data: at the memcpy() to the caller, in the function that
 * all reads go through. copy-plan.ts finds this call, and where the arguments of that function are then kept. Part of requests.bpf.c.
 */
#ifndef CORAL_TLS_OPENSSL_COPY_H
#define CORAL_TLS_OPENSSL_COPY_H

#include "tls/uprobes.h"

/* The cookie holds three locations of 16 bits: of the object, the requested record type, and the peek flag. */
#define COPY_KIND_SHIFT 16
#define COPY_PEEK_SHIFT 32
/* A location is an offset from the stack pointer in bytes, or COPY_REGISTER and the number of a register; repeated in copy-plan.ts. */
#define COPY_REGISTER 0x8000
#define COPY_STACK_WORDS 16

/* RFC 8446, 5.1: the record type for application data. */
#define RECORD_APPLICATION_DATA 23

static always_inline u64 copy_argument(const struct call_registers *context, const u64 *stack, u32 location)
{
	if (!(location & COPY_REGISTER))
		return stack[location >> 3 & (COPY_STACK_WORDS - 1)] >> ((location & 7) << 3);
	switch (location & 7) {
	case 0:
		return context->bx;
	case 1:
		return context->bp;
	case 2:
		return context->r12;
	case 3:
		return context->r13;
	case 4:
		return context->r14;
	default:
		return context->r15;
	}
}

/* Binds an object to the socket whose records its thread read last: the copy follows the read in the same call. */
static always_inline struct connection *copy_bind(u64 object, u32 tgid, u64 *sk)
{
	struct tls_thread *thread = bpf_task_storage_get(&tls_threads, bpf_get_current_task_btf(), 0, 0);

	return thread ? tls_connection_of(thread, object, thread->operation ? thread->call_sk : 0, tgid, sk) : 0;
}

/* A handshake record was read. If nothing else has arrived, the next request starts with the bytes after it. */
static always_inline void copy_handshake(struct connection *connection, u64 sk)
{
	const struct tcp_sock *socket = kernel_cast(struct tcp_sock, (void *)sk);

	if (socket->rcv_nxt == socket->copied_seq)
		connection->arrival_ns = 0;
}

/* memcpy(): target in di, source in si, length in dx. */
SEC("uprobe")
int tls_copy(struct pt_regs *registers)
{
	const struct call_registers *context = (void *)registers;
	struct payload payload = { .flags = PAYLOAD_TLS, .tgid = current_process_of(bpf_get_current_task_btf()) };
	u64 locations = bpf_get_attach_cookie(registers), stack[COPY_STACK_WORDS], object, sk = 0;
	struct connection *connection;

	if (is_out_of_scope(payload.tgid))
		return 0;
	if (bpf_probe_read_user(stack, sizeof(stack), (void *)context->sp))
		return 0;
	if ((u32)copy_argument(context, stack, locations >> COPY_PEEK_SHIFT & 0xffff))
		return 0;
	object = copy_argument(context, stack, locations & 0xffff);
	connection = tls_bound_connection(object, payload.tgid, &sk);
	if (!connection)
		connection = copy_bind(object, payload.tgid, &sk);
	if (!connection || !context->dx || context->dx > 0x7fffffff)
		return 0;
	if ((u8)copy_argument(context, stack, locations >> COPY_KIND_SHIFT & 0xffff) != RECORD_APPLICATION_DATA) {
		copy_handshake(connection, sk);
		return 0;
	}
	payload.sk = sk;
	payload.buffer = context->si;
	payload.length = context->dx;
	payload.first_bytes = payload.length;
	payload.direction = RECEIVED;
	/* The time at which the records were read from the socket. */
	payload.at_ns = tcp_time((struct sock *)sk);
	if (!tls_handles(&payload, connection))
		on_data(&payload);
	return 0;
}

#endif
