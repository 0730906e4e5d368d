/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection under an object of a TLS library: bound when a call shows it, looked up at each call, unbound when the object is freed.
 * Part of requests.bpf.c.
 */
#ifndef CORAL_TLS_SSL_OBJECT_H
#define CORAL_TLS_SSL_OBJECT_H

#include "requests/dispatch.h"

/*
 * The connection that an object is bound to, or null. Binds it to the socket used in the call (`sk`; 0: none), or to the one that its
 * thread read before.
 */
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

static always_inline struct tls_cached *tls_cache_entry(u64 object)
{
	u32 index = ((u32)(object >> 4) * 0x9e3779b1U) >> 20;

	return bpf_map_lookup_elem(&tls_cache, &index);
}

/* The connection that an object is bound to, and its socket; null if there is none, or it has ended. */
static always_inline struct connection *tls_bound_connection(u64 object, u32 tgid, u64 *sk)
{
	struct tls_cached *cached = tls_cache_entry(object);
	struct tls_object key = { .address = object, .tgid = tgid };
	struct controls *control = controls_now();
	struct connection *connection;
	struct tls_socket *known;
	u32 unbound;

	if (!cached || !control)
		return 0;
	unbound = control->tls_unbound;
	if (likely(cached->object == object && cached->tgid == tgid && cached->unbound == unbound)) {
		*sk = cached->sk;
		connection = find_connection(*sk);
		if (likely(connection && connection->id == cached->connection))
			return connection;
	}
	known = bpf_map_lookup_elem(&tls_sockets, &key);
	if (!known)
		return 0;
	*sk = known->sk;
	connection = find_connection(*sk);
	if (!connection || connection->id != known->connection)
		return 0;
	cached->object = 0;
	cached->sk = *sk;
	cached->connection = connection->id;
	cached->unbound = unbound;
	cached->tgid = tgid;
	cached->object = object;
	return connection;
}

/* Called when the object is freed: its address may be reused. */
static always_inline void tls_forget(u64 object, u32 tgid)
{
	struct tls_object key = { .address = object, .tgid = tgid };
	struct tls_socket *known = bpf_map_lookup_elem(&tls_sockets, &key);
	struct tls_cached *cached = tls_cache_entry(object);
	struct connection *connection;

	if (cached && cached->object == object && cached->tgid == tgid)
		cached->object = 0;
	if (!known)
		return;
	connection = find_connection(known->sk);
	if (connection && connection->id == known->connection)
		connection->flags &= ~CONNECTION_TLS_BOUND;
	bpf_map_delete_elem(&tls_sockets, &key);
}

#endif
