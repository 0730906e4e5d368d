/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The programs that are attached to TLS libraries: OpenSSL and its forks, and Go's crypto/tls. Part of requests.bpf.c.
 *
 * User space chooses cheap instructions to probe (src/traffic/tls) and passes the kind of call in the cookie. Plaintext then takes the path
 * of every other payload, from on_data() on.
 */
#ifndef CORAL_TLS_UPROBES_H
#define CORAL_TLS_UPROBES_H

#include "tls/go.h"
#include "tls/openssl-calls.h"

static u64 (*const bpf_get_attach_cookie)(void *context) = (void *)174;

/*
 * The start of a call: SSL_read(object, buffer, length), SSL_write(), their _ex variants with a pointer to the byte count,
 * SSL_free(object), or Go's (*Conn).Read.
 */
SEC("uprobe")
int tls_enter(struct pt_regs *context)
{
	u32 what = bpf_get_attach_cookie(context), process = current_process();

	if (is_out_of_scope(process))
		return 0;
	if (what & TLS_GO)
		return go_read_begins(context, process, what);
	if ((what & TLS_OPERATION) == TLS_FREE) {
		tls_forget(context->di, process);
		return 0;
	}
	tls_note_call((void *)context, what);
	return 0;
}

/* The start and the return of a call in one program (Linux 6.13): the start decides whether the return is trapped at all. */
SEC("uprobe/session")
int tls_call(struct pt_regs *context)
{
	struct payload payload;
	u64 sk;

	if (!bpf_session_is_return())
		return tls_call_begins((void *)context, bpf_get_attach_cookie(context));
	sk = *bpf_session_cookie();
	if (sk & COOKIE_WRITE) {
		tls_write_returns((void *)context, sk & ~(u64)COOKIE_WRITE);
		return 0;
	}
	if (sk) {
		tls_read_returns((void *)context, sk);
		return 0;
	}
	__builtin_memset(&payload, 0, sizeof(payload));
	payload.flags = PAYLOAD_TLS;
	payload.tgid = current_process();
	tls_call_ends(context, &payload);
	if (!payload.sk || !payload.length)
		return 0;
	payload.first_bytes = payload.length;
	payload.at_ns = bpf_ktime_get_ns();
	on_data(&payload);
	return 0;
}

/* Everything that ends in plaintext, in one program: the verifier then checks the decoders once. */
SEC("uprobe")
int tls_plaintext(struct pt_regs *context)
{
	u32 what = bpf_get_attach_cookie(context);
	struct payload payload = { .flags = PAYLOAD_TLS, .tgid = current_process() };

	if (is_out_of_scope(payload.tgid))
		return 0;
	if (what & TLS_GO) {
		u64 connection = (what & TLS_OPERATION) == TLS_WRITE ? go_write_begins(context, &payload, what)
								     : go_read_ends(context, &payload, what);

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
